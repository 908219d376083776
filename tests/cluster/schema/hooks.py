"""Turns half of what Schemathesis makes up into questions about what is there.

Made-up texts are hardly ever addresses. What is there, and may be changed, comes by
the environment from the test. All choices depend on the question alone, so that the
same questions are asked in every run.
"""

import os
import zlib

import schemathesis

ADDRESSES = os.environ["FLOE_ADDRESSES"].split(",")
NAMESPACE = os.environ["FLOE_NAMESPACE"]
# Addresses that a pool takes ahead come from anywhere, so they are few.
MOST_AHEAD = 3


def known(made_up, those):
    """Either what was made up, or one of those."""
    number = zlib.crc32(repr(made_up).encode("utf-8", "surrogatepass"))
    return those[number // 2 % len(those)] if number % 2 else made_up


def put(members, name, those):
    if isinstance(members, dict) and name in members:
        members[name] = known(members[name], those)


@schemathesis.hook
def before_call(context, case, kwargs):
    pods = [f"{NAMESPACE}/web-0", f"{NAMESPACE}/nobody"]
    for members in (case.path_parameters, case.query):
        put(members, "ip", ADDRESSES)
        put(members, "pod", pods)
        put(members, "namespace", [NAMESPACE])
        put(members, "name", ["first", "second"])
    body = case.body
    if not isinstance(body, dict):
        return
    put(body, "name", ["first", "second"])
    ips = body.get("ips")
    if isinstance(ips, list):
        body["ips"] = [known(ip, ADDRESSES) if isinstance(ip, str) else ip for ip in ips]
        for ip in body["ips"]:
            put(ip, "ip", ADDRESSES)
    size = body.get("size")
    if body.get("preAllocateIP") and isinstance(size, int) and size > MOST_AHEAD:
        body["size"] = size % MOST_AHEAD
