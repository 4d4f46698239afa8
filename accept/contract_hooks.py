"""Steers schemathesis: most requests name a queue that exists, and none waits for long.

Chance alone would find no queue and send nearly everything to a 404. Long polls that wait their twenty seconds would
leave no time for anything else; the limit is the test's and not the server's.
"""

import random

import schemathesis

QUEUES = ["orders", "orders.fifo", "crn:queue:local:local:queue/orders"]
pick = random.Random(1)


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if path_parameters and "queue_id" in path_parameters and pick.random() < 0.8:
        # The queues that are deleted again and again are others than those that messages are sent to.
        path_parameters["queue_id"] = pick.choice(QUEUES)
    return path_parameters


@schemathesis.hook
def filter_case(context, case):
    if case.operation.label == "DELETE /v1/queues/{queue_id}":
        return (case.path_parameters or {}).get("queue_id") not in QUEUES
    body = case.body
    if isinstance(body, dict):
        for name in ("wait_time_seconds", "receive_wait_time_seconds"):
            wait = body.get(name)
            if isinstance(wait, (int, float)) and not isinstance(wait, bool) and 0 < wait <= 20:
                return False
    return True
