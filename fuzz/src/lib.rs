//! What must hold for any bytes that others send: to a plugin, in an annotation, in a
//! file, on the wire.
//!
//! Each function takes bytes, panics if something does not hold, and tells whether the
//! bytes were taken. The fuzz targets call them, and so does a test of `floe-core`, over
//! the corpus beside this file and mutations of it.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use floe_core::{
    announce::{Mac, arp, ndp, probe::Inquiry},
    cni::{
        args::CniArgs,
        call::{Call, Command, is_identifier, is_ifname},
        config::NetConf,
        error::CniError,
        result::Outcome,
        version::Version,
    },
    ipam::args::{Args, IpInfo, MAX_LISTS, MAX_RANGES},
    node::{
        names::{Alias, HostVeth, NAME_MAX, host_veth, underlay_suffix, vlan_suffix},
        networks::{Wanted, select},
        nic::{Routing, plan},
        settings::{NetworkConfig, Settings},
        state::State,
    },
};
use serde_json::Value;

mod shared;
mod told;

pub use shared::vip_annotation;
pub use told::{agent_answer, move_journal};

/// A target: it tells whether it has taken the bytes.
pub type Target = fn(&[u8]) -> bool;

/// All targets by their names.
pub const TARGETS: [(&str, Target); 10] = [
    ("cni_stdin", cni_stdin),
    ("cni_args", cni_args),
    ("networks_annotation", networks_annotation),
    ("args_annotation", args_annotation),
    ("state_file", state_file),
    ("arp_ndp", arp_ndp),
    ("alias", alias),
    ("agent_answer", agent_answer),
    ("move_journal", move_journal),
    ("vip_annotation", vip_annotation),
];

/// The longest alias that the kernel takes.
const ALIAS_MAX: usize = 255;

/// The configuration on a plugin's standard input, and in the files of a node.
pub fn cni_stdin(data: &[u8]) -> bool {
    let version = NetConf::version_of(data);
    let mut taken = Vec::new();
    for command in [
        Command::Add,
        Command::Del,
        Command::Check,
        Command::Gc,
        Command::Status,
    ] {
        match NetConf::parse_for(data, command) {
            Ok(conf) => {
                assert_eq!(conf.version, version);
                configuration(&conf);
                taken.push(command);
            }
            Err(error) => refusal(&error, version),
        }
    }
    // Clean-up goes farther than the others, and these agree.
    assert!(matches!(taken.len(), 0 | 2 | 5), "{taken:?}");
    if let Ok(text) = str::from_utf8(data) {
        files(text);
    }
    // An answer of another plugin is read from bytes too.
    refusal(&CniError::of_delegate("host-local", data), version);
    taken.len() == 5
}

/// `CNI_ARGS` and the other variables of a call.
pub fn cni_args(data: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(data) else {
        return false;
    };
    for command in ["ADD", "DEL", "GC", text] {
        let variable = |name: &str| match name {
            "CNI_COMMAND" => Some(command.to_owned()),
            "CNI_ARGS" => Some(String::new()),
            _ => Some(text.to_owned()),
        };
        match Call::of(variable) {
            Ok(call) if matches!(call.command, Command::Add | Command::Del) => {
                assert!(is_identifier(&call.container) && is_ifname(&call.ifname));
                assert!(!call.container.contains(['/', ':']));
            }
            Ok(_) => {}
            Err(error) => refusal(&error, Version::LATEST),
        }
    }
    let mut args = match CniArgs::parse(text) {
        Ok(args) => args,
        Err(error) => {
            refusal(&error.into(), Version::LATEST);
            return false;
        }
    };
    assert_eq!(CniArgs::parse(&args.to_string()).as_ref(), Ok(&args));
    let addresses = args.addresses();
    match &addresses {
        Ok(infos) => interfaces(infos.as_deref().unwrap_or_default()),
        Err(error) => refusal(&error.clone().into(), Version::LATEST),
    }
    // What is set is what is read, whatever else was there.
    let count = args.iter().count();
    for value in [text, "[]"] {
        if args.set("ipinfos", value).is_ok() {
            let again = CniArgs::parse(&args.to_string());
            assert_eq!(again.as_ref(), Ok(&args));
            assert_eq!(args.get("ipinfos"), Some(value));
            assert!(args.iter().count() <= count + 1);
        }
    }
    addresses.is_ok()
}

/// The annotation that names the networks of a pod.
pub fn networks_annotation(data: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(data) else {
        return false;
    };
    let wanted = Wanted {
        annotation: Some(text),
        wants_address: true,
        ifname: "eth0",
    };
    match select(wanted, &Settings::default()) {
        Ok(selected) => {
            assert_eq!(selected[0].ifname, "eth0");
            assert!(selected.iter().all(|it| is_ifname(&it.ifname)));
            assert!(selected.iter().all(|it| !it.network.is_empty()));
            let names: BTreeSet<_> = selected.iter().map(|it| &it.ifname).collect();
            assert_eq!(names.len(), selected.len());
            true
        }
        Err(error) => {
            assert!(!error.reason().is_empty());
            false
        }
    }
}

/// The annotation that asks for addresses and tells them.
pub fn args_annotation(data: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(data) else {
        return false;
    };
    let args = match Args::parse(Some(text)) {
        Ok(args) => args,
        Err(error) => {
            assert!(!error.reason().is_empty());
            return false;
        }
    };
    assert!(args.ranges().len() <= MAX_LISTS);
    let is_wide = |list: &Vec<_>| (1..=MAX_RANGES).contains(&list.len());
    assert!(args.ranges().iter().all(is_wide));
    let claimed = args.claimed();
    let infos = claimed.as_deref().unwrap_or_default();
    let written = args.with_result(infos);
    let again = Args::parse(Some(&written)).expect("what floe writes it reads");
    assert_eq!(again.ranges(), args.ranges());
    assert_eq!(again.claimed().as_deref(), Ok(infos));
    let common = |args: &Args| -> Vec<(String, String)> {
        let pairs = args.common();
        pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
    };
    assert_eq!(common(&again), common(&args));
    assert_eq!(again.with_result(infos), written);
    claimed.is_ok()
}

/// The file of a container.
pub fn state_file(data: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(data) else {
        return false;
    };
    let Ok(state) = State::parse(text) else {
        return false;
    };
    let written = state.to_json();
    assert_eq!(State::parse(&written).as_ref(), Ok(&state));
    for one in &state.attached {
        let plugin = one.plugin();
        assert!(plugin == one.kind || one.conf["type"] == plugin);
        interfaces(&one.addresses());
    }
    true
}

/// A frame from the wire.
pub fn arp_ndp(data: &[u8]) -> bool {
    let taken = frame(data);
    // Random bytes have the right checksum too seldom to get any farther.
    mended(data).is_some_and(|mended| frame(&mended)) || taken
}

/// The alias of a link, and its name.
pub fn alias(data: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(data) else {
        return false;
    };
    if let Some(veth) = HostVeth::parse(text) {
        assert_eq!(format!("v-h{}{}", veth.id, veth.suffix), text);
    }
    for suffix in [vlan_suffix(0), underlay_suffix(usize::MAX)] {
        let name = host_veth(text, &suffix);
        assert!(name.len() <= NAME_MAX || suffix.len() > NAME_MAX, "{name}");
        let is_own = HostVeth::parse(&name).is_none_or(|veth| veth.is_of(text));
        assert!(is_own || !is_identifier(text), "{name}");
    }
    if is_identifier(text) {
        let made = Alias::new(text, text, "eth0");
        assert!(made.to_string().len() <= ALIAS_MAX);
        assert_eq!(Alias::parse(&made.to_string()).as_ref(), Some(&made));
        assert!(made.is_of_network(text) && made.is_of_container(text));
    }
    let Some(alias) = Alias::parse(text) else {
        return false;
    };
    assert_eq!(alias.to_string(), text);
    assert!(!alias.container.contains(':') && !alias.ifname.contains(':'));
    true
}

fn configuration(conf: &NetConf) {
    assert!(is_identifier(&conf.name));
    for plugin in [Some(&conf.kind), conf.ipam.as_ref()].into_iter().flatten() {
        assert!(!plugin.is_empty() && !plugin.contains('/') && plugin != "..");
    }
    for known in conf.valid_attachments.iter().flatten() {
        assert!(is_identifier(&known.container) && is_ifname(&known.ifname));
    }
    if let Some(previous) = &conf.previous {
        for version in Version::SUPPORTED {
            let told = previous.to_json(version);
            let read = Outcome::from_json(&told).expect("what floe writes it reads");
            assert_eq!(read.to_json(version), told);
            if version == Version::LATEST {
                assert_eq!(read.ips, previous.ips);
                assert_eq!(read.interfaces, previous.interfaces);
            }
        }
    }
    // The members that the plugins read, in the forms in which they read them.
    for name in ["device", "switch", "ipvlan_mode", "default_bridge_name"] {
        let _ = conf.member::<Option<String>>(name);
    }
    let _ = conf.member::<Option<Vec<String>>>("devices");
    let _ = conf.member::<Option<bool>>("duplicate_address_detection");
    let _ = conf.member::<Option<u64>>("duplicate_address_window_ms");
    let _ = conf.member::<Option<u32>>("mtu");
    let _ = conf.member::<Option<i64>>("vf_num");
}

fn files(text: &str) {
    if let Ok(settings) = Settings::parse(text) {
        for (name, network) in &settings.networks {
            assert_eq!(*name, network.name);
            plugins(network);
        }
    }
    if let Ok(network) = NetworkConfig::parse(text) {
        plugins(&network);
    }
}

fn plugins(network: &NetworkConfig) {
    assert!(!network.plugins.is_empty());
    for index in 0..network.plugins.len() {
        let conf = network.plugin_config(index, "1.0.0", None);
        let conf = conf.expect("there is a plugin at each place");
        assert_eq!(conf["name"], network.name);
        assert!(!conf.contains_key("prevResult"));
        assert_eq!(conf["cniVersion"], network.version("1.0.0"));
    }
    assert!(network.plugins.iter().all(|it| it["type"] != ".."));
}

/// The answer to a call that is refused.
fn refusal(error: &CniError, version: Version) {
    assert!(!error.reason.is_empty());
    let told: Value = serde_json::from_str(&error.to_text(version)).expect("an error is JSON");
    assert_eq!(told["cniVersion"], version.as_str());
    assert_ne!(told["code"], 0);
    let read = CniError::from_json(&told).expect("what floe writes it reads");
    assert_eq!(read.code, error.code);
}

/// Each address is on exactly one interface, and no two of these are alike.
fn interfaces(infos: &[IpInfo]) {
    for routing in [Routing::Vlan, Routing::Underlay] {
        let nics = plan(infos, "eth0", routing);
        let placed: Vec<_> = nics.iter().flat_map(|nic| &nic.addresses).collect();
        let mut asked: Vec<IpAddr> = infos.iter().map(|info| info.ip.addr()).collect();
        let mut found: Vec<IpAddr> = placed.iter().map(|info| info.ip.addr()).collect();
        asked.sort_unstable();
        asked.dedup();
        found.sort_unstable();
        assert_eq!(found, asked);
        let names: BTreeSet<_> = nics.iter().map(|nic| &nic.name).collect();
        let numbers: BTreeSet<_> = nics.iter().map(|nic| nic.number).collect();
        let macs: BTreeSet<_> = nics.iter().map(|nic| nic.mac).collect();
        assert_eq!(
            [names.len(), numbers.len(), macs.len()],
            [nics.len(); 3],
            "{nics:?}"
        );
        for family in [IpAddr::is_ipv4, IpAddr::is_ipv6] {
            let routes = nics.iter().flat_map(|nic| &nic.routes);
            let defaults = routes.filter(|it| it.dst.prefix_len() == 0 && family(&it.dst.addr()));
            assert!(defaults.count() <= 1, "{nics:?}");
        }
    }
}

fn frame(data: &[u8]) -> bool {
    let mut padded = data.to_vec();
    padded.resize(data.len() + 18, 0);
    let (arp, ndp) = (arp::parse(data), ndp::parse(data));
    // Padding changes nothing, but can be taken for what is missing.
    assert!(arp.is_none() || arp == arp::parse(&padded));
    assert!(ndp.is_none() || ndp == ndp::parse(&padded));
    let own = Mac([2, 0, 0, 0, 0, 1]);
    let asks = |ip| Inquiry::new(ip, own, Duration::from_millis(200));
    if let Some(packet) = arp {
        let judged = asks(packet.sender_ip.into()).judge(data);
        assert_eq!(judged.map(|it| it.mac), Some(packet.sender_mac));
    }
    if let Some(packet) = ndp {
        assert!(!packet.source.is_multicast() && !packet.target.is_multicast());
        let judged = asks(packet.source.into()).judge(data);
        let is_canonical = packet.source.to_ipv4_mapped().is_none();
        assert_eq!(judged.is_some(), is_canonical);
        if let (Some(judged), ndp::Message::Solicitation) = (judged, packet.message) {
            let mac = packet.link_mac.unwrap_or(packet.frame_mac);
            assert_eq!(judged.mac, mac);
        }
    }
    // A frame is of one kind.
    assert!(arp.is_none() || ndp.is_none());
    arp.is_some() || ndp.is_some()
}

/// The same frame with the checksum that its ICMP message should have.
fn mended(data: &[u8]) -> Option<Vec<u8>> {
    const ICMP: usize = 14 + 40;
    let length = usize::from(u16::from_be_bytes([*data.get(18)?, *data.get(19)?]));
    let end = ICMP.checked_add(length)?;
    let mut frame = data.to_vec();
    let message = frame.get_mut(ICMP..end)?;
    message.get_mut(2..4)?.fill(0);
    // Added up without folding: no frame is long enough to run over.
    let add = |bytes: &[u8]| -> u64 {
        let words = bytes.chunks(2).map(|pair| match *pair {
            [high, low] => u64::from(u16::from_be_bytes([high, low])),
            _ => u64::from(pair[0]) << 8,
        });
        words.sum()
    };
    let mut sum = add(message) + add(data.get(22..ICMP)?) + u64::try_from(length).ok()? + 58;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let sum = !u16::try_from(sum).ok()?;
    frame[ICMP + 2..ICMP + 4].copy_from_slice(&sum.to_be_bytes());
    Some(frame)
}
