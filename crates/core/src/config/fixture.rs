//! The configuration that the scenarios of this crate's tests share.

use super::{AddressConfig, Mode};

/// Seven entries, 39 addresses, eight node subnets. T3 and T4 share a gateway,
/// T6 and T7 a node subnet.
///
/// | entry | node subnets | addresses |
/// | --- | --- | --- |
/// | T1 | 10.49.27.0/24 | 10.49.27.205, .216~.218 |
/// | T2 | 10.173.13.0/24 | 10.173.13.2, .10~.13, .15 |
/// | T3 | 10.180.1.2/32 | 10.180.154.2~.3 |
/// | T4 | 10.180.1.3/32 | 10.180.154.7~.8 |
/// | T5 | 10.0.1.0/24, 10.0.2.0/24 | 10.0.70.2~.20 |
/// | T6 | 10.49.28.0/26, 10.49.29.0/24 | 10.0.80.2~.4 |
/// | T7 | 10.49.28.0/26 | 10.0.81.2~.4 |
pub(crate) const T: &str = r#"[
    {"nodeSubnets": ["10.49.27.0/24"], "ips": ["10.49.27.205", "10.49.27.216~10.49.27.218"],
     "subnet": "10.49.27.0/24", "gateway": "10.49.27.1", "vlan": 2},
    {"nodeSubnets": ["10.173.13.0/24"],
     "ips": ["10.173.13.2", "10.173.13.10~10.173.13.13", "10.173.13.15"],
     "subnet": "10.173.13.0/24", "gateway": "10.173.13.1", "vlan": 2},
    {"nodeSubnets": ["10.180.1.2/32"], "ips": ["10.180.154.2~10.180.154.3"],
     "subnet": "10.180.154.0/24", "gateway": "10.180.154.1", "vlan": 3},
    {"nodeSubnets": ["10.180.1.3/32"], "ips": ["10.180.154.7~10.180.154.8"],
     "subnet": "10.180.154.0/24", "gateway": "10.180.154.1", "vlan": 3},
    {"nodeSubnets": ["10.0.1.2/24", "10.0.2.2/24"], "ips": ["10.0.70.2~10.0.70.20"],
     "subnet": "10.0.70.0/24", "gateway": "10.0.70.1"},
    {"nodeSubnets": ["10.49.28.0/26", "10.49.29.0/24"], "ips": ["10.0.80.2~10.0.80.4"],
     "subnet": "10.0.80.0/24", "gateway": "10.0.80.1"},
    {"nodeSubnets": ["10.49.28.0/26"], "ips": ["10.0.81.2~10.0.81.4"],
     "subnet": "10.0.81.0/24", "gateway": "10.0.81.1"}
]"#;

/// The configuration of a text that has no problems.
pub(crate) fn config(text: &str) -> AddressConfig {
    let loaded = AddressConfig::parse(text, Mode::Strict);
    loaded.expect("the text of a test is sound").config
}

/// The configuration of [`T`].
pub(crate) fn t() -> AddressConfig {
    config(T)
}
