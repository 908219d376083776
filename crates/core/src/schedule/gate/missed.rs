//! Pods that came to a node and were never at the gate.
//!
//! A gate can be put on a new pod only. One that was made while nobody did that, or that
//! names its node itself, is bound without an address; nothing can be mended in it any
//! more, and its network is refused for as long as it is there.

use std::fmt;

use crate::ipam::owner::OwnerRef;

/// The stable name, also for who asks about such a pod.
pub const REASON: &str = "BoundWithoutAddress";

/// A pod, as far as it matters here.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each of them is a fact about the pod"
)]
pub struct Passer<'a> {
    /// Whether it asks for addresses.
    pub wants_address: bool,
    /// Whether it is at the gate.
    pub is_gated: bool,
    /// Whether it says which addresses it has, however badly.
    pub claims_some: bool,
    /// Whether it is over, or about to be.
    pub is_leaving: bool,
    /// The node that it is bound to.
    pub node: Option<&'a str>,
    /// Its owners.
    pub owners: &'a [OwnerRef],
}

/// A pod is on a node and will never have an address. Its text says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    node: String,
    /// Kind and name of who makes another pod when this one is gone.
    maker: Option<(String, String)>,
}

/// Whether a pod has missed the gate. What a bound pod got is written in the same object
/// and before its node, so that one who reads late mistakes nobody.
pub fn missed(pod: Passer<'_>) -> Option<Missed> {
    let node = pod.node?;
    if !pod.wants_address || pod.is_gated || pod.claims_some || pod.is_leaving {
        return None;
    }
    let maker = pod.owners.iter().find(|owner| owner.controller);
    Some(Missed {
        node: node.to_owned(),
        maker: maker.map(|it| (it.kind.clone(), it.name.clone())),
    })
}

impl fmt::Display for Missed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, gate) = (&self.node, super::GATE);
        write!(
            f,
            "bound to node {node} without an address, and never gets one: it was not at the gate {gate}, \
             which can be put on a new pod only; "
        )?;
        match &self.maker {
            Some((kind, name)) => write!(f, "delete it, and {kind} {name} makes another one")?,
            None => f.write_str("delete it and create it again")?,
        }
        f.write_str(", while floe's webhook is there and without spec.nodeName")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(controller: bool) -> OwnerRef {
        OwnerRef {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "web-1".into(),
            controller,
        }
    }

    fn passer(owners: &[OwnerRef]) -> Passer<'_> {
        Passer {
            wants_address: true,
            is_gated: false,
            claims_some: false,
            is_leaving: false,
            node: Some("n1"),
            owners,
        }
    }

    #[test]
    fn only_a_bound_pod_that_lacks_what_it_wants_has_missed_the_gate() {
        let it = passer(&[]);
        assert!(missed(it).is_some());
        let others = [
            Passer { node: None, ..it },
            Passer {
                wants_address: false,
                ..it
            },
            Passer {
                is_gated: true,
                ..it
            },
            Passer {
                claims_some: true,
                ..it
            },
            Passer {
                is_leaving: true,
                ..it
            },
        ];
        for other in others {
            assert_eq!(missed(other), None, "{other:?}");
        }
    }

    #[test]
    fn what_to_do_depends_on_who_makes_another_one() {
        let text = |owners: &[OwnerRef]| missed(passer(owners)).unwrap().to_string();
        let with = text(&[owner(false), owner(true)]);
        assert!(with.starts_with("bound to node n1 without"), "{with}");
        let remedy = "; delete it, and ReplicaSet web-1 makes another one, while";
        assert!(with.contains(remedy), "{with}");
        for owners in [&[][..], &[owner(false)]] {
            let alone = text(owners);
            assert!(
                alone.contains("; delete it and create it again, while"),
                "{alone}"
            );
        }
    }
}
