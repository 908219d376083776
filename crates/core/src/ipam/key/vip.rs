//! The keys of shared addresses: `vip__<namespace>_<name>_`, after the `VirtualIP`.
//!
//! Such a key has no [parts](HolderKey::parts): it names neither pod, workload nor
//! pool, so nothing that looks for one of those ever touches its address. It cannot be
//! confused with a workload of a kind `vip` either, because the namespace of such a one
//! is never empty.

use super::{HolderKey, KeyError};
use crate::vip::VipId;

/// The start of keys of shared addresses.
const VIP: &str = "vip__";

impl HolderKey {
    /// The key of the addresses of a `VirtualIP`.
    pub fn of_vip(vip: &VipId) -> Result<Self, KeyError> {
        let VipId { namespace, name } = vip;
        for (part, text) in [("namespace", namespace), ("VirtualIP name", name)] {
            if text.is_empty() || text.contains('_') {
                let text = text.clone();
                return Err(KeyError { part, text });
            }
        }
        Ok(Self::new(format!("{VIP}{namespace}_{name}_")))
    }

    /// The `VirtualIP` that a key stands for, if it is the key of a shared address.
    pub fn vip(&self) -> Option<VipId> {
        let (namespace, name) = self.vip_parts()?;
        Some(VipId {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Whether this is the key of a shared address.
    pub fn is_vip(&self) -> bool {
        self.vip_parts().is_some()
    }

    fn vip_parts(&self) -> Option<(&str, &str)> {
        let rest = self.as_str().strip_prefix(VIP)?.strip_suffix('_')?;
        let (namespace, name) = rest.split_once('_')?;
        let sound = !namespace.is_empty() && !name.is_empty() && !name.contains('_');
        sound.then_some((namespace, name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ipam::key::{Holder, KindPrefix, PoolName};

    fn id(namespace: &str, name: &str) -> VipId {
        VipId {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    #[test]
    fn the_key_of_a_shared_address_names_its_object_and_nobody_else() {
        let key = HolderKey::of_vip(&id("shop", "web.front-1")).unwrap();
        assert_eq!(key.as_str(), "vip__shop_web.front-1_");
        assert_eq!(key.vip(), Some(id("shop", "web.front-1")));
        assert!(key.is_vip() && key.is_opaque());
        assert_eq!(key.parts(), None);
        assert_eq!(key.group_key(), None);
        assert_eq!(key.app_prefix(), None);
        assert!(!key.is_group() && !key.names_pod("shop", "web.front-1"));
        assert!(key.is_selected_by(&"".into()) && key.is_selected_by(&key));
    }

    #[test]
    fn a_part_that_would_not_come_back_is_refused() {
        for (namespace, name) in [("", "a"), ("a", ""), ("a_b", "c"), ("a", "b_c")] {
            let error = HolderKey::of_vip(&id(namespace, name)).unwrap_err();
            assert_eq!(error.reason(), "InvalidHolder");
        }
        let empty = HolderKey::of_vip(&id("shop", "")).unwrap_err();
        assert_eq!(empty.to_string(), "VirtualIP name is empty");
    }

    #[test]
    fn what_only_looks_alike_is_no_key_of_a_shared_address() {
        let table = [
            "",
            "vip__",
            "vip___",
            "vip____",
            "vip__shop_",
            "vip__shop__",
            "vip___web_",
            "vip__shop_web",
            "vip__shop_web_x",
            "vip__shop_web_x_",
            "vip_shop_web_",
            "vip_shop_web_web-0",
            "VIP__shop_web_",
            "pool__vip_",
            "pool__vip__shop_web_",
        ];
        for text in table {
            assert_eq!(HolderKey::from(text).vip(), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_object_comes_back_from_its_key(
            namespace in "[a-z0-9-]{1,8}",
            name in "[a-z0-9.-]{1,8}",
        ) {
            let wanted = id(&namespace, &name);
            let key = HolderKey::of_vip(&wanted).unwrap();
            prop_assert_eq!(key.vip(), Some(wanted));
            prop_assert_eq!(key.parts(), None);
        }

        #[test]
        fn no_pod_workload_or_pool_has_such_a_key(
            pool in "(vip|[a-z0-9.-]{1,4})?",
            kind in "(vip|[a-zA-Z]{1,4})",
            namespace in "[a-z0-9-]{1,4}",
            app in "[a-z0-9.-]{1,4}",
            pod in "[a-z0-9.-]{0,4}",
        ) {
            let holder = Holder {
                pool: PoolName::from_annotation(Some(&pool)).unwrap(),
                kind: KindPrefix::of_kind(&kind),
                namespace,
                app,
                pod,
            };
            let key = holder.key().unwrap();
            prop_assert_eq!(key.vip(), None);
            prop_assert!(key.group_key().is_none_or(|group| !group.is_vip()));
        }

        #[test]
        fn a_key_is_of_one_kind_only(text in "(vip__|pool__|dp_|_|[a-z]{1,3}){0,7}") {
            let key = HolderKey::new(text);
            prop_assert!(!(key.is_vip() && key.parts().is_some()));
            if let Some(vip) = key.vip() {
                prop_assert_eq!(HolderKey::of_vip(&vip).unwrap(), key);
            }
        }
    }
}
