"""Turns half of what Schemathesis makes up into questions about what is there.

Made-up texts are hardly ever addresses, and what it learns from answers is always
there. What may be changed comes by the environment from the test. Everybody has his
turn, so that the same questions are asked in every run.
"""

import copy
import itertools
import os

import schemathesis

ADDRESSES = os.environ["FLOE_ADDRESSES"].split(",")
NAMESPACE = os.environ["FLOE_NAMESPACE"]
POOLS = ["first", "second"]
# Addresses that a pool takes ahead come from any range, so they are few.
MOST_AHEAD = 3

turns = itertools.count()


def known(made_up, those):
    """Either what was made up, or one of those."""
    turn = next(turns)
    return those[turn // 2 % len(those)] if turn % 2 else made_up


def put(members, name, those):
    if isinstance(members, dict) and name in members:
        members[name] = known(members[name], those)


@schemathesis.hook
def before_call(context, case, kwargs):
    # What was made up may be used again, so it must stay as it is.
    case.path_parameters = copy.deepcopy(case.path_parameters)
    case.query = copy.deepcopy(case.query)
    case.body = copy.deepcopy(case.body)
    pods = [f"{NAMESPACE}/web-0", f"{NAMESPACE}/nobody"]
    for members in (case.path_parameters, case.query):
        put(members, "ip", ADDRESSES)
        put(members, "pod", pods)
        put(members, "namespace", [NAMESPACE])
        put(members, "name", POOLS)
    body = case.body
    if not isinstance(body, dict):
        return
    put(body, "name", POOLS)
    ips = body.get("ips")
    if isinstance(ips, list):
        body["ips"] = [known(ip, ADDRESSES) if isinstance(ip, str) else ip for ip in ips]
        for ip in body["ips"]:
            put(ip, "ip", ADDRESSES)
    size = body.get("size")
    if body.get("preAllocateIP") and isinstance(size, int) and size > MOST_AHEAD:
        body["size"] = size % MOST_AHEAD
