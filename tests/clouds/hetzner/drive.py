"""Uses a cloud by Hetzner's own client, and fails where it is not as the client expects.

Arguments: the endpoint, a token, one that may only read, and a server's id.
"""

import json
import sys
import urllib.request

from hcloud import APIException, Client
from hcloud.locations import Location
from hcloud.servers import Server

endpoint, token, reader, server_id = sys.argv[1:]
client = Client(token=token, api_endpoint=endpoint, poll_interval=0.01)


def tell(order):
    """Does something behind the back of clients."""
    url = endpoint.removesuffix("/v1") + "/_fake/script"
    request = urllib.request.Request(url, data=json.dumps(order).encode())
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["id"]


def refused(code, call):
    try:
        call()
    except APIException as error:
        assert error.code == code, (code, error)
        return error
    raise AssertionError(f"{code} was expected")


first = client.servers.get_by_id(int(server_id))
second = client.servers.get_by_id(tell({"add_server": "of-the-script"}))
assert second.name == "of-the-script" and second.public_net.floating_ips == []
assert {"fsn1", "hel1"} <= {one.name for one in client.locations.get_all()}

# Bought with labels, found by them and by name.
made = client.floating_ips.create(
    type="ipv4",
    name="by-sdk",
    description="of the script",
    labels={"example.com/owner": "sdk"},
    home_location=Location(name="hel1"),
)
one = made.floating_ip
assert made.action is None and one.server is None and one.type == "ipv4"
assert one.home_location.name == "hel1" and not one.blocked
assert one.protection == {"delete": False} and one.dns_ptr[0]["ip"] == one.ip
assert one.created is not None and one.description == "of the script"
selected = client.floating_ips.get_all(label_selector="example.com/owner in (a,sdk)")
assert [found.id for found in selected] == [one.id]
assert client.floating_ips.get_all(label_selector="example.com/owner!=sdk,absent") == []
assert client.floating_ips.get_by_name("by-sdk").id == one.id
error = refused(
    "uniqueness_error",
    lambda: client.floating_ips.create(
        type="ipv4", name="by-sdk", home_location=Location(name="hel1")
    ),
)
assert error.details["fields"][0]["name"] == "name"
error = refused("invalid_input", lambda: client.floating_ips.create(type="ipv4"))
assert error.details["fields"][0]["name"] == "home_location"

# Assigned, moved, refused where it is.
action = one.assign(first)
assert action.status == "running" and action.command == "assign_floating_ip"
assert {"id": first.id, "type": "server"} in action.resources
action.wait_until_finished()
assert action.status == "success" and action.progress == 100 and action.finished
one.reload()
assert one.server.id == first.id
first.reload()
assert one.id in [found.id for found in first.public_net.floating_ips]
refused("floating_ip_assigned", lambda: one.assign(first))
one.assign(second).wait_until_finished()
assert client.floating_ips.get_by_id(one.id).server.id == second.id
refused("not_found", lambda: one.assign(Server(id=999999)))

# Locked while an action runs.
tell({"hold": True})
action = one.unassign()
refused("locked", lambda: one.assign(first))
running = client.floating_ips.actions.get_all()
assert action.id in [found.id for found in running]
tell("finish")
tell({"hold": False})
action.wait_until_finished()
assert action.id in [found.id for found in one.get_actions()]

# Protected, then deleted only when it is on no server.
one.change_protection(delete=True).wait_until_finished()
refused("protected", one.delete)
one.change_protection(delete=False).wait_until_finished()
one.assign(first).wait_until_finished()
refused("must_be_unassigned", one.delete)
one.unassign().wait_until_finished()
changed = one.update(name="renamed", labels={"a": "1"})
assert changed.name == "renamed" and changed.labels == {"a": "1"}
assert one.delete()
refused("not_found", lambda: client.floating_ips.get_by_id(one.id))

# Created on a server, of IPv6.
made = client.floating_ips.create(type="ipv6", server=first)
made.action.wait_until_finished()
network = client.floating_ips.get_by_id(made.floating_ip.id)
assert network.ip.endswith("::/64") and network.server.id == first.id
network.unassign().wait_until_finished()
network.delete()

# Limits and tokens.
tell({"quota": 0})
refused(
    "resource_limit_exceeded",
    lambda: client.floating_ips.create(type="ipv4", home_location=Location(name="fsn1")),
)
tell({"quota": None})
reading = Client(token=reader, api_endpoint=endpoint)
reading.floating_ips.get_all()
refused("token_readonly", lambda: reading.floating_ips.create(type="ipv4", server=first))
refused("unauthorized", Client(token="no", api_endpoint=endpoint).floating_ips.get_all)

# All pages, by what the answers say of pages.
many = [
    client.floating_ips.create(type="ipv6", home_location=Location(name="fsn1")).floating_ip
    for _ in range(60)
]
assert {one.id for one in many} <= {one.id for one in client.floating_ips.get_all()}
for one in many:
    one.delete()
tell({"remove_server": second.id})
refused("not_found", lambda: client.servers.get_by_id(second.id))
print("all of it")
