"""Makes networks, a router, servers' ports and floating IPs in an empty Neutron.

Arguments: its address and the project. What there is then is printed as JSON.

    public (external, 203.0.113.0/24) --- router --- inside (10.0.0.0/24)
                                                     storage (10.9.0.0/24), no router
"""

import json
import sys
import urllib.request
import uuid

url, project = sys.argv[1:]


def call(method, path, body=None):
    request = urllib.request.Request(
        f"{url}/v2.0/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Content-Type": "application/json",
            "X-Project-Id": project,
            "X-Roles": "admin",
        },
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def make(kind, **fields):
    body = {kind: {"tenant_id": project, **fields}}
    return call("POST", f"{kind}s", body)[kind]


def network(name, cidr, **fields):
    made = make("network", name=name, **fields)
    subnet = make("subnet", network_id=made["id"], ip_version=4, cidr=cidr)
    return made["id"], subnet["id"]


def server(*networks):
    """A machine is known to Neutron by its ports only."""
    device = str(uuid.uuid4())
    for one in networks:
        make("port", network_id=one, device_id=device, device_owner="compute:nova")
    return device


public, _ = network("public", "203.0.113.0/24", **{"router:external": True})
other, _ = network("other", "198.51.100.0/24", **{"router:external": True})
inside, subnet = network("inside", "10.0.0.0/24")
storage, _ = network("storage", "10.9.0.0/24")
router = make("router", name="router", external_gateway_info={"network_id": public})
call("PUT", f"routers/{router['id']}/add_router_interface", {"subnet_id": subnet})

scene = {
    "network": public,
    "servers": [server(inside) for _ in range(4)],
    "with_storage": server(storage, inside),
    "ambiguous": server(inside, inside),
    "unrouted": server(storage),
    "addresses": [
        make("floatingip", floating_network_id=public)["floating_ip_address"]
        for _ in range(3)
    ],
}
print(json.dumps(scene))
