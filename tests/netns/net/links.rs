//! Links: made, changed, moved, found, removed.

use std::{
    io,
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use floe_core::announce::Mac;
use floe_net::netlink::{LinkChange, LinkKind, Netlink, NewKind, NewLink};

use super::{Space, cable, plain};

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_veth_into_another_namespace_has_all_that_was_asked_for_on_both_ends() {
    let (mut host, mut pod) = (Space::new(), Space::new());
    host.netlink
        .create(&NewLink {
            alias: Some("floe:bridge"),
            mac: Some(Mac([2, 0, 0, 0, 0, 9])),
            up: true,
            ..plain("br0")
        })
        .unwrap();
    let bridge = host.link("br0");
    host.netlink
        .create(&NewLink {
            kind: NewKind::Veth {
                peer: Box::new(NewLink {
                    alias: Some("floe:net:container:eth0"),
                    mac: Some(Mac([2, 0x42, 10, 0, 0, 5])),
                    mtu: Some(1400),
                    namespace: Some(pod.netns.as_fd()),
                    ..plain("eth0")
                }),
            },
            alias: Some("floe:net:container:eth0"),
            mac: Some(Mac([2, 0, 0, 0, 0, 1])),
            mtu: Some(1400),
            master: Some(bridge.index),
            up: true,
            ..plain("v-h123456789-l0")
        })
        .unwrap();

    let outer = host.link("v-h123456789-l0");
    assert_eq!(outer.kind, LinkKind::Veth);
    assert_eq!(outer.alias.as_deref(), Some("floe:net:container:eth0"));
    assert_eq!(outer.mac, Some(Mac([2, 0, 0, 0, 0, 1])));
    assert_eq!(outer.mtu, 1400);
    assert_eq!(outer.master, Some(bridge.index));
    assert!(outer.is_up && !outer.has_carrier && outer.is_elsewhere);
    let inner = pod.link("eth0");
    assert_eq!(inner.kind, LinkKind::Veth);
    assert_eq!(inner.alias.as_deref(), Some("floe:net:container:eth0"));
    assert_eq!(inner.mac, Some(Mac([2, 0x42, 10, 0, 0, 5])));
    assert_eq!(inner.mtu, 1400);
    assert!(!inner.is_up && inner.is_elsewhere);
    assert_eq!(inner.parent, Some(outer.index));
    assert_eq!(outer.parent, Some(inner.index));

    let seen = host.ip("-d link show v-h123456789-l0");
    for part in ["master br0", "mtu 1400", "alias floe:net:container:eth0"] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    assert_eq!(bridge.kind, LinkKind::Bridge);
    assert_eq!(bridge.alias.as_deref(), Some("floe:bridge"));
    assert!(host.ip("-d link show br0").contains("stp_state 0"));

    pod.netlink
        .change(inner.index, &[LinkChange::Up(true)])
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    assert!(
        host.netlink
            .wait_for_carrier(outer.index, deadline)
            .unwrap()
    );
    // One end takes the other with it.
    assert!(host.netlink.remove(outer.index).unwrap());
    assert_eq!(pod.netlink.link("eth0").unwrap(), None);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_peer_in_the_same_namespace_joins_a_bridge_too() {
    let mut host = Space::new();
    host.netlink.create(&plain("br0")).unwrap();
    let bridge = host.link("br0").index;
    host.netlink
        .create(&NewLink {
            kind: NewKind::Veth {
                peer: Box::new(NewLink {
                    master: Some(bridge),
                    ..plain("right")
                }),
            },
            ..plain("left")
        })
        .unwrap();
    assert_eq!(host.link("right").master, Some(bridge));
    assert_eq!(host.link("left").master, None);
    assert!(!host.link("left").is_elsewhere);
    let right = host.link("right").index;
    host.netlink
        .change(right, &[LinkChange::Master(None)])
        .unwrap();
    assert_eq!(host.link("right").master, None);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_macvlan_is_born_in_its_pod_also_with_a_name_that_the_host_has() {
    let (mut host, _far) = cable();
    let parent = host.link("eth0").index;
    let mut pod = Space::new();
    host.netlink
        .create(&NewLink {
            kind: NewKind::Macvlan { parent },
            alias: Some("floe:net:container:eth0"),
            mac: Some(Mac([2, 0x42, 10, 0, 0, 6])),
            mtu: Some(1300),
            namespace: Some(pod.netns.as_fd()),
            up: true,
            ..plain("eth0")
        })
        .unwrap();
    let link = pod.link("eth0");
    assert_eq!(link.kind, LinkKind::Macvlan);
    assert_eq!(link.alias.as_deref(), Some("floe:net:container:eth0"));
    assert_eq!(link.mac, Some(Mac([2, 0x42, 10, 0, 0, 6])));
    assert_eq!(link.mtu, 1300);
    assert_eq!(link.parent, Some(parent));
    assert!(link.is_up && link.is_elsewhere);
    assert!(pod.ip("-d link show eth0").contains("mode bridge"));

    // The second one fails, and leaves nothing with another name behind.
    let names = |space: &mut Space| {
        let links = space.netlink.links().unwrap();
        let names = links.into_iter().map(|link| link.name);
        names.collect::<Vec<_>>()
    };
    let before = (names(&mut host), names(&mut pod));
    let again = host.netlink.create(&NewLink {
        kind: NewKind::Macvlan { parent },
        namespace: Some(pod.netns.as_fd()),
        ..plain("eth0")
    });
    assert_eq!(
        again.unwrap_err().kind(),
        Some(io::ErrorKind::AlreadyExists)
    );
    assert_eq!((names(&mut host), names(&mut pod)), before);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn what_the_kernel_refuses_is_told_with_its_words_and_leaves_nothing() {
    let mut host = Space::new();
    host.netlink.create(&plain("br0")).unwrap();
    let before = host.netlink.links().unwrap();

    let error = host.netlink.create(&plain("br0")).unwrap_err();
    assert_eq!(error.kind(), Some(io::ErrorKind::AlreadyExists));
    let text = error.to_string();
    assert!(
        text.starts_with("cannot make link br0: File exists"),
        "{text}"
    );

    // The peer's name is taken, so neither end is made.
    let error = host.netlink.create(&NewLink {
        kind: NewKind::Veth {
            peer: Box::new(plain("br0")),
        },
        ..plain("left")
    });
    assert_eq!(
        error.unwrap_err().kind(),
        Some(io::ErrorKind::AlreadyExists)
    );

    // A bridge that is none: the link is made, cannot be finished, and goes again.
    let bad = before[0].index;
    let error = host.netlink.create(&NewLink {
        kind: NewKind::Veth {
            peer: Box::new(NewLink {
                master: Some(bad),
                ..plain("right")
            }),
        },
        ..plain("left")
    });
    assert!(error.is_err());
    let error = host.netlink.create(&NewLink {
        kind: NewKind::Macvlan { parent: 4711 },
        ..plain("m0")
    });
    assert_eq!(error.unwrap_err().errno(), Some(nix::libc::ENODEV));
    let error = host.netlink.create(&NewLink {
        mtu: Some(1),
        ..plain("b1")
    });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("mtu less than device minimum"), "{text}");

    assert_eq!(host.netlink.links().unwrap(), before);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_link_is_renamed_changed_and_moved() {
    let (mut here, mut there) = (Space::new(), Space::new());
    here.netlink
        .create(&NewLink {
            kind: NewKind::Veth {
                peer: Box::new(plain("b")),
            },
            ..plain("a")
        })
        .unwrap();
    let index = here.link("a").index;
    here.netlink
        .change(
            index,
            &[
                LinkChange::Name("c"),
                LinkChange::Alias("what it is for"),
                LinkChange::Mac(Mac([2, 0, 0, 0, 0, 7])),
                LinkChange::Mtu(1280),
                LinkChange::Up(true),
            ],
        )
        .unwrap();
    assert_eq!(here.netlink.link("a").unwrap(), None);
    let link = here.link("c");
    assert_eq!(link.index, index);
    assert_eq!(link.alias.as_deref(), Some("what it is for"));
    assert_eq!(link.mac, Some(Mac([2, 0, 0, 0, 0, 7])));
    assert_eq!(link.mtu, 1280);
    assert!(link.is_up);
    assert_eq!(here.netlink.link_at(index).unwrap(), Some(link));

    here.netlink
        .change(
            index,
            &[
                LinkChange::Namespace(there.netns.as_fd()),
                LinkChange::Name("eth0"),
                LinkChange::Up(true),
            ],
        )
        .unwrap();
    assert_eq!(here.netlink.link("c").unwrap(), None);
    assert_eq!(here.netlink.link_at(index).unwrap(), None);
    let link = there.link("eth0");
    assert_eq!(link.alias.as_deref(), Some("what it is for"));
    assert_eq!(link.mtu, 1280);
    assert!(link.is_up);

    let error = here.netlink.change(index, &[LinkChange::Up(false)]);
    assert_eq!(error.unwrap_err().errno(), Some(nix::libc::ENODEV));
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn links_that_are_not_there_are_none_and_their_removal_is_no_error() {
    let mut space = Space::new();
    for name in ["eth0", "", "a-name-that-is-much-too-long"] {
        assert_eq!(space.netlink.link(name).unwrap(), None, "{name}");
    }
    for index in [0, 4711] {
        assert_eq!(space.netlink.link_at(index).unwrap(), None);
        assert!(!space.netlink.remove(index).unwrap());
    }
    let loopback = space.link("lo");
    assert_eq!(loopback.mac, None);
    assert_eq!(loopback.kind, LinkKind::Other(String::new()));
    assert_eq!(space.netlink.links().unwrap(), [loopback]);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_list_of_several_hundred_links_is_whole() {
    let mut space = Space::new();
    for number in 0..300 {
        space
            .netlink
            .create(&plain(&format!("br{number}")))
            .unwrap();
    }
    let mut names: Vec<_> = space
        .netlink
        .links()
        .unwrap()
        .into_iter()
        .map(|link| link.name)
        .collect();
    names.sort_unstable();
    let mut expected: Vec<_> = (0..300).map(|number| format!("br{number}")).collect();
    expected.push("lo".to_owned());
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_list_is_whole_also_while_links_come_and_go() {
    let mut space = Space::new();
    for number in 0..100 {
        space
            .netlink
            .create(&plain(&format!("br{number}")))
            .unwrap();
    }
    let mut other = space.netns.run(Netlink::open).unwrap().unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                other.create(&plain("guest")).unwrap();
                let guest = other.link("guest").unwrap().unwrap();
                assert!(other.remove(guest.index).unwrap());
            }
        });
        let lists: Vec<_> = (0..20).map(|_| space.netlink.links()).collect();
        done.store(true, Ordering::Relaxed);
        for list in lists {
            let list = list.unwrap();
            let bridges = list.iter().filter(|link| link.name.starts_with("br"));
            assert_eq!(bridges.count(), 100);
        }
    });
}
