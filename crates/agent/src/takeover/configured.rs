//! What is configured on this node.

use std::{collections::BTreeMap, path::PathBuf};

use floe_core::{
    addr,
    node::{state::PodId, takeover::Attachment},
};

use crate::{
    cri::Cri,
    state::{Kept, States, is_lasting},
};

/// An address that is configured on this node.
#[derive(Clone, Debug)]
pub struct Configured {
    /// For whom.
    pub attachment: Attachment,
    /// The namespace of the pod, if that was noted and the path still means it.
    pub netns: Option<PathBuf>,
    /// Whether the address was taken off before, as the state file says.
    pub is_off: bool,
    /// Whether the result of a plugin says that the address is configured in the namespace.
    pub is_expected: bool,
}

/// Every address of a record that is configured here, from the state files.
pub async fn gather(states: &States, cri: &Cri) -> Result<Vec<Configured>, String> {
    let kept = states.list().await.map_err(|it| it.to_string())?;
    let unnamed = kept
        .iter()
        .any(|kept| kept.state.as_ref().is_ok_and(|it| it.pod().is_none()));
    // galaxy's files name no pod; the runtime does. Without its answer a record that
    // names another node still counts.
    let pods: BTreeMap<String, PodId> = if unnamed {
        let sandboxes = cri.sandboxes().await.unwrap_or_default();
        sandboxes.into_iter().map(|it| (it.id, it.pod)).collect()
    } else {
        BTreeMap::new()
    };
    Ok(kept.iter().flat_map(|it| addresses_of(it, &pods)).collect())
}

fn addresses_of(kept: &Kept, pods: &BTreeMap<String, PodId>) -> Vec<Configured> {
    let Ok(state) = &kept.state else {
        return Vec::new();
    };
    let pod = state.pod().or_else(|| pods.get(&kept.container));
    let mut found: Vec<Configured> = Vec::new();
    for it in &state.attached {
        let infos = it.addresses();
        for ip in infos.iter().map(|it| addr::canonical(it.ip.addr())) {
            // Every network of a pod is told all of its addresses.
            if found.iter().any(|it| it.attachment.ip == ip) {
                continue;
            }
            let netns = it.netns.as_ref().filter(|path| is_lasting(path));
            let mut all = state.attached.iter();
            found.push(Configured {
                attachment: Attachment {
                    container: kept.container.clone(),
                    pod: pod.cloned(),
                    ip,
                },
                netns: netns.map(PathBuf::from),
                is_off: all.clone().any(|it| it.taken_off.contains(&ip)),
                is_expected: all.any(|it| it.has_configured(ip) == Some(true)),
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use floe_core::node::state::{Attached, State};
    use serde_json::json;

    use super::*;

    fn kept(netns: &str, ips: &[&str]) -> Kept {
        let info =
            |ip: &&str| json!({ "ip": format!("{ip}/24"), "vlan": 0, "gateway": "10.0.0.1" });
        let infos: Vec<_> = ips.iter().map(info).collect();
        let attached = Attached {
            kind: "galaxy-k8s-vlan".into(),
            args: [("ipinfos".to_owned(), json!(infos).to_string())].into(),
            conf: serde_json::Map::new(),
            ifname: "eth0".into(),
            netns: Some(netns.into()),
            pod: None,
            taken_off: BTreeSet::new(),
        };
        Kept {
            container: "c0".into(),
            written: std::time::SystemTime::UNIX_EPOCH,
            state: Ok(State {
                attached: vec![attached.clone(), attached],
            }),
        }
    }

    #[test]
    fn an_address_of_several_networks_is_compared_once() {
        let kept = kept("/run/netns/a", &["10.0.0.5", "::ffff:10.0.0.6"]);
        let found = addresses_of(&kept, &BTreeMap::new());
        let ips: Vec<String> = found
            .iter()
            .map(|it| it.attachment.ip.to_string())
            .collect();
        assert_eq!(ips[0], "10.0.0.5");
        assert_eq!(ips.len(), ips.iter().collect::<BTreeSet<_>>().len());
        assert_eq!(found[0].netns, Some("/run/netns/a".into()));
    }

    #[test]
    fn a_path_that_may_mean_another_process_by_now_is_not_entered() {
        let found = addresses_of(&kept("/proc/4711/ns/net", &["10.0.0.5"]), &BTreeMap::new());
        assert_eq!(found[0].netns, None);
    }
}
