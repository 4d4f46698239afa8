"""Steers schemathesis: most requests name a queue that exists and a receipt that was given out, and none waits for long.

Chance alone would find neither and send nearly everything to a 404. Long polls that wait their twenty seconds would
leave no time for anything else; that limit is the test's and not the server's.
"""

import os
import random

import schemathesis

QUEUES = os.environ["CONTRACT_QUEUES"].split()
RECEIPTS = os.environ["CONTRACT_RECEIPTS"].split()
pick = random.Random(1)


def real(value, of):
    """Puts one of ours in the place of most texts; other types are the generator's mistakes, which it wants to see."""
    return pick.choice(of) if isinstance(value, str) and value and pick.random() < 0.7 else value


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    if path_parameters and "queue_id" in path_parameters:
        path_parameters["queue_id"] = real(path_parameters["queue_id"], QUEUES)
    return path_parameters


@schemathesis.hook
def map_query(context, query):
    if query and "receipt_handle" in query:
        query["receipt_handle"] = real(query["receipt_handle"], RECEIPTS)
    return query


@schemathesis.hook
def map_body(context, body):
    if isinstance(body, dict):
        entries = body.get("entries")
        for part in [body] + (entries if isinstance(entries, list) else []):
            if isinstance(part, dict) and "receipt_handle" in part:
                part["receipt_handle"] = real(part["receipt_handle"], RECEIPTS)
    return body


@schemathesis.hook
def before_call(context, case, kwargs):
    # In another account what was just made is not found, as it must be; other tests look at that.
    for name in [name for name in case.headers or {} if name.lower() == "x-account-id"]:
        del case.headers[name]


@schemathesis.hook
def filter_case(context, case):
    if case.operation.label == "DELETE /v1/queues/{queue_id}":
        # The queues that are deleted again and again are others than those that messages are sent to.
        return (case.path_parameters or {}).get("queue_id") not in QUEUES
    if isinstance(case.body, dict):
        if not isinstance(case.body.get("token_type_hint", ""), str):
            return False  # a revocation's hint is not read, so that a wrong one is not refused either
        for name in ("wait_time_seconds", "receive_wait_time_seconds"):
            wait = case.body.get(name)
            if isinstance(wait, (int, float)) and not isinstance(wait, bool) and 0 < wait <= 20:
                return False
    return True
