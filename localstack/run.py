"""Starts LocalStack as a process of the machine instead of a container, with other backends than its own.

DynamoDB is dynoxide, since Amazon's DynamoDB Local has terms of its own; a Lambda function runs as a process, since
no container is needed to test what an event source delivers. Run it with the Python that install.sh prints; the
environment is what localstack.go gives it.
"""

import os
import re

from executor import ProcessExecutor
from localstack.runtime import main
from localstack.services.dynamodb import provider, server, utils
from localstack.services.lambda_.invocation.plugins import DockerRuntimeExecutorPlugin
from localstack.utils.threads import TMP_THREADS
from localstack.utils.run import ShellCommandThread


def start_dynoxide(self):
    command = [os.environ["DYNOXIDE"], "--host", "127.0.0.1", "--port", str(self.port), "--log", "quiet"]
    thread = ShellCommandThread(command, strip_color=True, auto_restart=True, name="dynoxide")
    TMP_THREADS.append(thread)
    thread.start()
    return thread


def as_dynamodb_local(arn):
    return arn.replace(":dynoxide:", ":ddblocal:")


# Where DynamoDB Local writes "ddblocal" for the region of an ARN, dynoxide writes its own name.
for name in ("_ddb_local_arn_pattern", "_ddb_local_exception_arn_pattern"):
    pattern = getattr(utils, name).pattern
    setattr(utils, name, re.compile(pattern.replace(":ddblocal:", ":dynoxide:")))
fix_table_arn = provider.DynamoDBProvider.fix_table_arn
provider.DynamoDBProvider.fix_table_arn = lambda self, account_id, region_name, arn: fix_table_arn(
    self, account_id, region_name, as_dynamodb_local(arn)
)
server.DynamodbServer.do_start_thread = start_dynoxide
DockerRuntimeExecutorPlugin.load = lambda self, *args, **kwargs: ProcessExecutor

if __name__ == "__main__":
    main.main()
