"""Does with DigitalOcean's own client what floe does with its own, on the fake.

The client knows what each answer may contain: it is in the descriptions of its calls. No
field of the fake may be one that the client does not know, and none that floe reads may be
missing.
"""

import json
import re
import sys
import urllib.request

from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import _authentication
from pydo import Client

url, token = sys.argv[1:3]
# It sends tokens over TLS only, and the fake is on this machine without it.
_authentication._enforce_https = lambda request: None
client = Client(token=token, endpoint=url)


def script(**what):
    body = json.dumps(what).encode()
    urllib.request.urlopen(urllib.request.Request(url + "/_fake/script", body)).read()


def fields(value, without=()):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            if name not in without:
                yield from fields(inner, without)
    elif isinstance(value, list):
        for inner in value:
            yield from fields(inner, without)


def call(operation, *arguments, without=(), **named):
    answer = operation(*arguments, **named)
    described = operation.__doc__
    described = described[described.index("# response body") :]
    known = set(re.findall(r'"(\w+)":', described))
    unknown = set(fields(answer, without)) - known
    assert not unknown, f"{operation.__name__} knows no {unknown}"
    return answer


def refused(operation, *arguments, **named):
    """The refusal, however the client hands it over."""
    try:
        answer = operation(*arguments, **named)
    except HttpResponseError as error:
        return error.response.status_code, json.loads(error.response.text())["id"]
    assert set(answer) == {"id", "message", "request_id"}, answer
    return 404 if answer["id"] == "not_found" else 0, answer["id"]


def addresses():
    # The buying of an address, its way to a droplet, to another, off it, and its end.
    ips, actions = client.reserved_ips, client.reserved_ips_actions
    ip = call(ips.create, body={"region": "nyc3"})["reserved_ip"]["ip"]
    found = call(ips.get, ip)["reserved_ip"]
    assert found["droplet"] is None and found["locked"] is False, found
    assert found["region"]["slug"] == "nyc3" and found["project_id"], found
    for order in [
        {"type": "assign", "droplet_id": 1},
        {"type": "assign", "droplet_id": 2},
        {"type": "unassign"},
    ]:
        action = call(actions.post, ip, body=order)["action"]
        assert action["status"] == "in-progress" and action["completed_at"] is None, action
        assert call(ips.get, ip, without=["droplet"])["reserved_ip"]["locked"] is True
        assert refused(actions.post, ip, body=order) == (422, "unprocessable_entity")
        script(do="settle")
        for again in [
            call(actions.get, ip, action["id"])["action"],
            call(client.actions.get, action["id"])["action"],
        ]:
            assert again["id"] == action["id"] and again["status"] == "completed", again
        holder = call(ips.get, ip, without=["droplet"])["reserved_ip"]["droplet"]
        assert (holder or {}).get("id") == order.get("droplet_id"), holder
    other = call(ips.create, body={"droplet_id": 1})
    assert other["links"]["actions"][0]["rel"] == "assign_ip", other
    script(do="settle")
    order = {"type": "assign", "droplet_id": 1}
    assert refused(actions.post, ip, body=order) == (422, "unprocessable_entity")
    # Where other pages are is not described.
    listed = call(ips.list, without=["droplet", "pages"], per_page=1)
    assert listed["meta"]["total"] == 2 and "next" in listed["links"]["pages"], listed
    droplet = call(client.droplets.get, 1)["droplet"]
    assert droplet["id"] == 1, droplet
    for address in [ip, other["reserved_ip"]["ip"]]:
        ips.delete(address)
        assert refused(ips.get, address) == (404, "not_found")
    assert call(ips.list)["reserved_ips"] == []
    print("reserved IPs")


def addresses_of_ipv6():
    ips, actions = client.reserved_ipv6, client.reserved_ipv6_actions
    ip = call(ips.create, body={"region_slug": "nyc3"})["reserved_ipv6"]["ip"]
    action = call(actions.post, ip, body={"type": "assign", "droplet_id": 1})["action"]
    script(do="settle")
    assert call(client.actions.get, action["id"])["action"]["status"] == "completed"
    listed = call(ips.list, without=["droplet"])["reserved_ipv6s"]
    assert [(found["ip"], found["droplet"]["id"]) for found in listed] == [(ip, 1)], listed
    call(actions.post, ip, body={"type": "unassign"})
    script(do="settle")
    ips.delete(ip)
    assert refused(ips.get, ip) == (404, "not_found")
    print("reserved IPv6")


def projects():
    wanted = {"name": "floe.a.b.c", "purpose": "Operational / Developer tooling"}
    made = call(client.projects.create, body=wanted)["project"]
    listed = call(client.projects.list)["projects"]
    assert "floe.a.b.c" in [project["name"] for project in listed], listed
    ip = client.reserved_ips.create(body={"region": "nyc3", "project_id": made["id"]})
    ip = ip["reserved_ip"]
    assert ip["project_id"] == made["id"], ip
    assert refused(client.projects.delete, made["id"])[1] == "precondition_failed"
    client.reserved_ips.delete(ip["ip"])
    client.projects.delete(made["id"])
    print("projects")


def records():
    domains = client.domains
    body = {"type": "A", "name": "www", "data": "192.0.2.1", "ttl": 60}
    made = call(domains.create_record, "example.com", body=body)["domain_record"]
    assert {name: made[name] for name in body} == body, made
    text = {"type": "TXT", "name": "_floe.www", "data": "us", "ttl": 300}
    note = call(domains.create_record, "example.com", body=text)["domain_record"]
    listed = call(domains.list_records, "example.com", name="www.example.com", type="A")
    assert [record["id"] for record in listed["domain_records"]] == [made["id"]], listed
    body["data"] = "192.0.2.2"
    call(domains.update_record, "example.com", made["id"], body=body)
    call(domains.patch_record, "example.com", made["id"], body={"type": "A", "ttl": 90})
    again = call(domains.get_record, "example.com", made["id"])["domain_record"]
    assert (again["data"], again["ttl"]) == ("192.0.2.2", 90), again
    assert refused(domains.list_records, "example.net") == (404, "not_found")
    wrong = dict(body, data="2001:db8::1")
    assert refused(domains.create_record, "example.com", body=wrong)[0] == 422
    for record in [made, note]:
        domains.delete_record("example.com", record["id"])
    assert call(domains.list_records, "example.com")["domain_records"] == []
    print("domains")


def strangers():
    stranger = Client(token="nobody", endpoint=url)
    assert refused(stranger.reserved_ips.list)[1].lower() == "unauthorized"
    print("strangers")


addresses()
addresses_of_ipv6()
projects()
records()
strangers()
print("all of it")
