//! What is compared with what: a way to connect pods, as floe and as the reference
//! plugins have it.

use serde_json::{Value, json};

/// The version that both speak.
const VERSION: &str = "1.0.0";
/// The address of every pod; there is one at a time.
pub const ADDRESS: &str = "192.168.0.68/24";
const GATEWAY: &str = "192.168.0.1";
/// The VLAN of the reference plugin: one device can have each VLAN only once, and
/// floe's stays between pods.
const THEIRS: u16 = 3;
const OURS: u16 = 2;

/// A way to connect pods.
pub struct Mode {
    /// What rows are called.
    pub title: &'static str,
    /// What `ip` does on the node before, which has the link `uplink`, up.
    pub setup: &'static str,
    /// The members of floe's configuration.
    floe: Value,
    /// The VLAN of floe's address.
    vlan: u16,
    /// The name of the reference plugin.
    pub reference: &'static str,
    /// The members of its configuration.
    theirs: Value,
}

impl Mode {
    /// Those that this machine's kernel has.
    pub fn on_host() -> [Self; 2] {
        [
            Self {
                title: "bridge",
                setup: "link add br0 type bridge\n\
                        link set uplink master br0\n\
                        link set br0 up\n",
                // An administrator's bridge: no address has to move to it.
                floe: json!({ "device": "br0", "switch": "bridge" }),
                vlan: 0,
                reference: "bridge",
                theirs: json!({ "bridge": "br0" }),
            },
            Self {
                title: "macvlan",
                setup: "",
                floe: json!({ "device": "uplink", "switch": "macvlan" }),
                vlan: 0,
                reference: "macvlan",
                theirs: json!({ "master": "uplink", "mode": "bridge" }),
            },
        ]
    }

    /// Those with VLANs. The reference plugin makes a VLAN device for each pod; floe
    /// makes one for all, and a link on it for each pod.
    pub fn in_guest() -> [Self; 2] {
        let mode = |title, switch| Self {
            title,
            setup: "",
            floe: json!({ "device": "uplink", "switch": switch }),
            vlan: OURS,
            reference: "vlan",
            theirs: json!({ "master": "uplink", "vlanId": THEIRS }),
        };
        [
            mode("vlan, by macvlan", "macvlan"),
            mode("vlan, by bridge", "bridge"),
        ]
    }

    /// floe's configuration. It does not ask whether somebody uses the address, as
    /// the reference plugins do not.
    pub fn floe(&self) -> Value {
        with(&self.floe, json!({ "duplicate_address_detection": false }))
    }

    /// floe's configuration when it asks for so many milliseconds.
    pub fn asking(&self, window: u32) -> Value {
        with(&self.floe, json!({ "duplicate_address_window_ms": window }))
    }

    /// floe's configuration when it gets the address as the reference plugin does.
    /// There is no VLAN then.
    pub fn by_static(&self) -> Option<Value> {
        (self.vlan == 0).then(|| with(&self.floe(), ipam()))
    }

    /// The configuration of the reference plugin.
    pub fn theirs(&self) -> Value {
        let kind = json!({ "type": self.reference });
        with(&with(&self.theirs, ipam()), kind)
    }

    /// The arguments by which floe gets its address.
    pub fn args(&self) -> String {
        let infos = json!([{ "ip": ADDRESS, "vlan": self.vlan, "gateway": GATEWAY }]);
        format!("IgnoreUnknown=1;ipinfos={infos}")
    }
}

fn ipam() -> Value {
    let addresses = json!([{ "address": ADDRESS, "gateway": GATEWAY }]);
    let routes = json!([{ "dst": "0.0.0.0/0" }]);
    json!({ "ipam": { "type": "static", "addresses": addresses, "routes": routes } })
}

/// A configuration with these members too.
fn with(config: &Value, more: Value) -> Value {
    let mut all = json!({
        "cniVersion": VERSION,
        "name": "bench",
        "type": "galaxy-k8s-vlan",
    });
    for members in [config.clone(), more] {
        if let (Value::Object(all), Value::Object(members)) = (&mut all, members) {
            all.extend(members);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_get_the_same_address_and_the_reference_keeps_its_name() {
        for mode in Mode::on_host().into_iter().chain(Mode::in_guest()) {
            let theirs = mode.theirs();
            assert_eq!(theirs["type"], mode.reference);
            assert_eq!(theirs["ipam"]["addresses"][0]["address"], ADDRESS);
            assert!(mode.args().contains(ADDRESS));
            assert_eq!(mode.floe()["type"], "galaxy-k8s-vlan");
            assert!(mode.floe().get("ipam").is_none());
        }
    }

    #[test]
    fn only_the_mode_that_is_told_to_asks() {
        let [bridge, _] = Mode::on_host();
        assert_eq!(bridge.floe()["duplicate_address_detection"], false);
        let asking = bridge.asking(200);
        assert!(asking.get("duplicate_address_detection").is_none());
        assert_eq!(asking["duplicate_address_window_ms"], 200);
    }
}
