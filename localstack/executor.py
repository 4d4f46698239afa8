"""Runs a Lambda function of a provided runtime as a process, one for each environment that LocalStack asks for.

The process gets the Runtime API, which lives here, and no sandbox: neither its memory nor its files are limited.
"""

import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from localstack import config
from localstack.services.lambda_.invocation.lambda_models import InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import RuntimeExecutor

START_SECONDS = 20


class RuntimeAPI(ThreadingHTTPServer):
    """Hands invocations to the process, and its answers back. See "Lambda runtime API" in Amazon's guide."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked = threading.Event()  # the process has come to fetch its first invocation
        self.waiting = queue.Queue()  # of (headers, payload); None ends the process's wait
        self.answers = queue.Queue()  # of (request id, is error, payload)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one segment, or delayed acknowledgements hold it up
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.server.asked.set()
        invocation = self.server.waiting.get()
        if invocation is None:
            self.answer(500, {}, b"")
        else:
            self.answer(200, *invocation)

    def do_POST(self):
        body = self.body()
        request, verb = self.path.split("/")[-2:]
        self.server.answers.put((request, verb == "error", body))
        self.answer(202, {}, b"{}")

    def body(self):
        length = self.headers.get("Content-Length")
        if length is not None:
            return self.rfile.read(int(length))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


class ProcessExecutor(RuntimeExecutor):
    def __init__(self, id, function_version):
        super().__init__(id, function_version)
        self.api = self.process = None
        self.log = tempfile.TemporaryFile("a+b")  # the process shares its position, so each write must go to the end

    def start(self, env_vars):
        function = self.function_version.config
        self.code = str(function.code.get_unzipped_code_location())
        endpoint = f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}"
        self.env = {"PATH": os.environ["PATH"]} | {k: str(v) for k, v in env_vars.items()}
        self.env |= {"LAMBDA_TASK_ROOT": self.code, "_HANDLER": function.handler or "", "AWS_ENDPOINT_URL": endpoint}
        self.launch()

    def launch(self):
        """Starts the process, also again after it crashed or was stopped for taking too long, as Lambda does."""
        self.close()
        self.api = RuntimeAPI()
        bootstrap = os.path.join(self.code, "bootstrap")
        os.chmod(bootstrap, 0o755)
        env = self.env | {"AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self.api.server_port}"}
        self.process = subprocess.Popen([bootstrap], cwd=self.code, env=env, stdout=self.log, stderr=self.log)
        end = time.monotonic() + START_SECONDS
        while not self.api.asked.wait(0.05):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the function did not start: " + self.get_logs())

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.api:
            self.api.waiting.put(None)
            self.api.shutdown()
            self.api.server_close()

    def stop(self):
        self.close()

    def invoke(self, payload):
        if self.process.poll() is not None:
            self.launch()
        begin, log = time.time(), self.log.seek(0, os.SEEK_END)
        request, timeout = payload["invoke-id"], self.function_version.config.timeout
        headers = {
            "Lambda-Runtime-Aws-Request-Id": request,
            "Lambda-Runtime-Deadline-Ms": int((begin + timeout) * 1000),
            "Lambda-Runtime-Invoked-Function-Arn": payload["invoked-function-arn"],
            "Lambda-Runtime-Trace-Id": payload.get("trace-id") or "",
        }
        self.api.waiting.put((headers, payload["payload"].encode()))
        failed, answer = self.wait(request, begin + timeout)
        report = f"REPORT RequestId: {request}\tDuration: {(time.time() - begin) * 1000:.2f} ms\n"
        logs = f"START RequestId: {request}\n{self.read(log)}END RequestId: {request}\n{report}"
        return InvocationResult(request, answer, is_error=failed, logs=logs)

    def wait(self, request, end):
        while time.time() < end:
            try:
                answered, failed, answer = self.api.answers.get(timeout=0.02)
                if answered == request:
                    return failed, answer
            except queue.Empty:
                if self.process.poll() is not None:
                    return True, failure("Runtime.ExitError", f"exit status {self.process.returncode}")
        self.process.kill()
        self.process.wait()
        return True, failure("Sandbox.Timedout", "Task timed out")

    def read(self, position):
        self.log.seek(position)
        return self.log.read().decode(errors="replace")

    def get_logs(self):
        return self.read(0)

    def get_address(self):
        return "127.0.0.1"

    def get_endpoint_from_executor(self):
        return "127.0.0.1"

    def get_runtime_endpoint(self):
        return f"http://127.0.0.1:{self.api.server_port if self.api else 0}"

    @classmethod
    def prepare_version(cls, function_version):
        function_version.config.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version):
        if function_version.config.code:
            function_version.config.code.destroy_cached()


def failure(kind, message):
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()
