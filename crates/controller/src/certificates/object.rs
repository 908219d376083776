//! The objects that certificates are kept in.

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;

use super::material::{Material, MaterialError};

/// The label of what floe has made, and may change.
pub const LABEL: &str = "floe.dev/made-by";

/// Its value.
pub const VALUE: &str = "floe-controller";

const CERT: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";

/// Whether floe has made it.
pub fn is_ours(object: &impl Resource) -> bool {
    let labels = object.meta().labels.as_ref();
    labels
        .and_then(|labels| labels.get(LABEL))
        .map(String::as_str)
        == Some(VALUE)
}

/// What is in a Secret; nothing at all is allowed too.
pub fn material(secret: &Secret) -> Result<Option<Material>, MaterialError> {
    let empty = Vec::new();
    let value = |name| {
        let data = secret.data.as_ref().and_then(|data| data.get(name));
        data.map_or(&empty, |bytes| &bytes.0)
    };
    let names = [CERT, KEY, AUTHORITIES, AUTHORITY_KEY];
    let [cert, key, authorities, authority_key] = names.map(value);
    let lacking: Vec<_> = names
        .into_iter()
        .filter(|name| value(name).is_empty())
        .collect();
    match lacking.first() {
        Some(_) if lacking.len() == names.len() => Ok(None),
        Some(&name) => Err(MaterialError::Lacks(name)),
        None => Ok(Some(Material {
            cert: cert.clone(),
            key: key.clone(),
            authorities: authorities.clone(),
            authority_key: authority_key.clone(),
        })),
    }
}

/// A Secret that does not exist yet.
pub fn new_secret(name: &str, material: &Material) -> Secret {
    let secret = Secret {
        metadata: meta(name),
        type_: Some("kubernetes.io/tls".to_owned()),
        ..Secret::default()
    };
    into_secret(secret, material)
}

/// The Secret that was read, with this content.
pub fn into_secret(mut secret: Secret, material: &Material) -> Secret {
    let data = secret.data.get_or_insert_default();
    for (name, bytes) in [
        (CERT, &material.cert),
        (KEY, &material.key),
        (AUTHORITIES, &material.authorities),
        (AUTHORITY_KEY, &material.authority_key),
    ] {
        data.insert(name.to_owned(), ByteString(bytes.clone()));
    }
    secret
}

/// A `ConfigMap` that does not exist yet.
pub fn new_map(name: &str, material: &Material) -> ConfigMap {
    let map = ConfigMap {
        metadata: meta(name),
        ..ConfigMap::default()
    };
    into_map(map, material)
}

/// The `ConfigMap` that was read, with whom to trust.
pub fn into_map(mut map: ConfigMap, material: &Material) -> ConfigMap {
    let data = map.data.get_or_insert_default();
    data.insert(AUTHORITIES.to_owned(), told(material));
    map
}

/// Whether it shows already whom to trust.
pub fn shows(map: &ConfigMap, material: &Material) -> bool {
    let data = map.data.as_ref();
    data.and_then(|data| data.get(AUTHORITIES)) == Some(&told(material))
}

/// Only what is known to be certificates is shown: it was parsed before.
fn told(material: &Material) -> String {
    String::from_utf8_lossy(&material.authorities).into_owned()
}

fn meta(name: &str) -> ObjectMeta {
    let labels = [(LABEL, VALUE), ("app.kubernetes.io/part-of", "floe")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels.into()),
        ..ObjectMeta::default()
    }
}
