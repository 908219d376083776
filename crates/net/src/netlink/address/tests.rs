use super::{super::wire::HEADER, *};

fn plain(net: &str) -> Seen {
    Seen {
        address: Address {
            link: 7,
            net: net.parse().unwrap(),
            scope: 0,
            no_prefix_route: false,
            // The kernel alone says that one stays.
            is_temporary: true,
        },
        peer: None,
        broadcast: None,
        metric: 0,
        lifetime: None,
    }
}

#[test]
fn what_is_asked_for_is_what_would_be_read() {
    let lifetime = |preferred, valid| Some(Lifetime { preferred, valid });
    for seen in [
        plain("10.0.0.2/24"),
        plain("fd00::2/64"),
        Seen {
            peer: Some("10.0.0.1".parse().unwrap()),
            ..plain("10.0.0.2/32")
        },
        Seen {
            broadcast: Some("10.0.0.255".parse().unwrap()),
            metric: 50,
            lifetime: lifetime(0, 60),
            ..plain("10.0.0.2/24")
        },
        Seen {
            lifetime: lifetime(30, FOR_EVER),
            ..plain("fd00::2/64")
        },
    ] {
        let mut request = new(&seen);
        let bytes = request.finish(1)[HEADER..].to_vec();
        assert_eq!(read(&bytes).unwrap(), Some(seen));
    }
}

#[test]
fn a_time_that_never_comes_is_none() {
    let seen = Seen {
        lifetime: Some(Lifetime {
            preferred: FOR_EVER,
            valid: FOR_EVER,
        }),
        ..plain("10.0.0.2/24")
    };
    let mut request = new(&seen);
    let bytes = request.finish(1)[HEADER..].to_vec();
    assert_eq!(read(&bytes).unwrap(), Some(plain("10.0.0.2/24")));
}

#[test]
fn lifetimes_that_are_cut_off_are_malformed() {
    let header = header(V4, 24, 0, 0, 7);
    let mut request = Request::new(libc::RTM_NEWADDR, 0, &header)
        .put_ip(libc::IFA_LOCAL, "10.0.0.2".parse().unwrap())
        .put(libc::IFA_CACHEINFO, &[0; 6]);
    assert!(read(&request.finish(1)[HEADER..]).is_err());
}
