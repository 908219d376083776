"""Does with Cloudflare's own client what floe does with its own, on the fake.

The client has a model of every answer, and checks it when it is asked to be strict.
"""

import sys

import cloudflare
from cloudflare import Cloudflare

url, token, zone = sys.argv[1:4]
client = Cloudflare(
    api_token=token,
    base_url=url,
    max_retries=0,
    _strict_response_validation=True,
)
records = client.dns.records


def listed(name):
    return list(records.list(zone_id=zone, name={"exact": name}, per_page=5))


def single():
    made = records.create(
        zone_id=zone,
        type="A",
        name="www.example.com",
        content="192.0.2.1",
        ttl=60,
        proxied=False,
    )
    assert (made.type, made.content, made.ttl) == ("A", "192.0.2.1", 60), made
    assert made.proxied is False and made.proxiable is True, made
    assert made.created_on <= made.modified_on, made
    changed = records.edit(
        made.id, zone_id=zone, type="A", name="www.example.com", ttl=120, content="192.0.2.2"
    )
    assert (changed.id, changed.content, changed.ttl) == (made.id, "192.0.2.2", 120)
    assert records.get(made.id, zone_id=zone).content == "192.0.2.2"
    assert [record.id for record in listed("www.example.com")] == [made.id]
    assert records.delete(made.id, zone_id=zone).id == made.id
    assert listed("www.example.com") == []
    print("single records")


def batches():
    post = lambda last: {
        "type": "A",
        "name": "www.example.com",
        "content": f"192.0.2.{last}",
        "ttl": 60,
        "proxied": False,
    }
    done = records.batch(zone_id=zone, posts=[post(last) for last in range(1, 13)])
    assert len(done.posts) == 12, done
    # Three pages of five.
    found = listed("www.example.com")
    assert len(found) == 12, found
    done = records.batch(
        zone_id=zone,
        deletes=[{"id": found[0].id}],
        patches=[dict(post(99), id=found[1].id)],
        puts=[dict(post(98), id=found[2].id)],
        posts=[post(100)],
    )
    sizes = [len(part) for part in (done.deletes, done.patches, done.puts, done.posts)]
    assert sizes == [1, 1, 1, 1], done
    contents = {record.content for record in listed("www.example.com")}
    assert {"192.0.2.98", "192.0.2.99", "192.0.2.100"} < contents, contents
    # Whole or not at all.
    try:
        records.batch(zone_id=zone, deletes=[{"id": found[1].id}], posts=[post(100)])
        raise AssertionError("an identical record was taken")
    except cloudflare.BadRequestError as error:
        assert error.errors[0].code == 81058, error
    assert {record.content for record in listed("www.example.com")} == contents
    rest = [{"id": record.id} for record in listed("www.example.com")]
    records.batch(zone_id=zone, deletes=rest)
    assert listed("www.example.com") == []
    print("batches")


def notes():
    name = "_floe.www.example.com"
    made = records.create(zone_id=zone, type="TXT", name=name, content='"us"', ttl=300)
    assert [record.content for record in listed(name)] == ['"us"']
    records.delete(made.id, zone_id=zone)
    print("notes")


def refusals():
    try:
        listed_elsewhere = list(records.list(zone_id="f" * 32))
        raise AssertionError(listed_elsewhere)
    except cloudflare.NotFoundError as error:
        assert error.errors[0].code == 7003, error
    stranger = Cloudflare(api_token="nobody", base_url=url, max_retries=0)
    try:
        raise AssertionError(list(stranger.dns.records.list(zone_id=zone)))
    except cloudflare.PermissionDeniedError as error:
        assert error.errors[0].code == 9109, error
    print("refusals")


single()
batches()
notes()
refusals()
print("all of it")
