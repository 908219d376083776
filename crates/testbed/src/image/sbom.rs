//! What an image consists of, as SPDX 2.3: Debian's packages with their sources, and the
//! crates that are linked into the programs.

use serde_json::{Value, json};

use super::debian::Package;

/// A crate that is linked into a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence, if it says one.
    pub licence: Option<String>,
    /// The SHA-256 of what was downloaded; none for floe's own.
    pub checksum: Option<String>,
}

/// The image that is described.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// Its digest.
    pub digest: &'a str,
    /// The distribution that packages are from, such as `debian-12`.
    pub distribution: &'a str,
}

/// The description of an image. It has no time of its own: the same image is described by the
/// same text.
pub fn spdx(image: Subject<'_>, packages: &[Package], crates: &[Crate]) -> Value {
    const IMAGE: &str = "SPDXRef-Image";
    let digest = image.digest.trim_start_matches("sha256:");
    let mut listed = vec![entry(
        IMAGE,
        image.name,
        image.version,
        &json!({
            "primaryPackagePurpose": "CONTAINER", "licenseDeclared": "NOASSERTION",
            "checksums": [{ "algorithm": "SHA256", "checksumValue": digest }],
        }),
    )];
    let mut relations = vec![relation("SPDXRef-DOCUMENT", "DESCRIBES", IMAGE)];
    for package in packages {
        let id = identity("deb", &package.name, &package.version);
        let source = identity("debsrc", &package.source, &package.source_version);
        let made_from = format!(
            "built from the Debian source package {} {}",
            package.source, package.source_version
        );
        let place = format!(
            "pkg:deb/debian/{}@{}?arch={}&distro={}",
            package.name,
            escaped(&package.version),
            package.architecture,
            image.distribution
        );
        listed.push(entry(&id, &package.name, &package.version, &json!({
            "licenseDeclared": "NOASSERTION", "sourceInfo": made_from,
            "comment": format!("its licences are in /usr/share/doc/{}/copyright of the image", package.name),
            "externalRefs": [reference(&place)],
        })));
        relations.push(relation(IMAGE, "CONTAINS", &id));
        relations.push(relation(&id, "GENERATED_FROM", &source));
        if !listed.iter().any(|it| it["SPDXID"] == source.as_str()) {
            let place = format!(
                "pkg:deb/debian/{}@{}?arch=source&distro={}",
                package.source,
                escaped(&package.source_version),
                image.distribution
            );
            listed.push(entry(
                &source,
                &package.source,
                &package.source_version,
                &json!({
                    "primaryPackagePurpose": "SOURCE", "licenseDeclared": "NOASSERTION",
                    "externalRefs": [reference(&place)],
                }),
            ));
        }
    }
    for it in crates {
        let id = identity("crate", &it.name, &it.version);
        let mut more = json!({ "licenseDeclared": licence(it.licence.as_deref()) });
        if let Some(checksum) = &it.checksum {
            let place = format!("pkg:cargo/{}@{}", it.name, escaped(&it.version));
            more["checksums"] = json!([{ "algorithm": "SHA256", "checksumValue": checksum }]);
            more["externalRefs"] = json!([reference(&place)]);
        }
        listed.push(entry(&id, &it.name, &it.version, &more));
        relations.push(relation(IMAGE, "CONTAINS", &id));
    }
    json!({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("{}-{}", image.name, image.version),
        "documentNamespace": format!("https://floe.dev/spdx/{}/{digest}", image.name),
        "creationInfo": { "created": "1970-01-01T00:00:00Z", "creators": ["Tool: floe-xtask"] },
        "packages": listed, "relationships": relations,
    })
}

fn entry(id: &str, name: &str, version: &str, more: &Value) -> Value {
    let mut entry = json!({
        "SPDXID": id, "name": name, "versionInfo": version, "filesAnalyzed": false,
        "downloadLocation": "NOASSERTION", "licenseConcluded": "NOASSERTION",
        "copyrightText": "NOASSERTION",
    });
    if let (Some(entry), Some(more)) = (entry.as_object_mut(), more.as_object()) {
        entry.extend(more.clone());
    }
    entry
}

fn relation(from: &str, kind: &str, to: &str) -> Value {
    json!({ "spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to })
}

fn reference(place: &str) -> Value {
    json!({
        "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": place,
    })
}

/// Identifiers have letters, digits, dots and hyphens only.
fn identity(kind: &str, name: &str, version: &str) -> String {
    let text = format!("SPDXRef-{kind}-{name}-{version}");
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    text.chars()
        .map(|c| if allowed(c) { c } else { '-' })
        .collect()
}

/// A version in the place of a package: a few characters have a meaning there.
fn escaped(version: &str) -> String {
    version.replace('+', "%2B").replace(':', "%3A")
}

/// Old crates separate licences by a slash, which is no expression.
fn licence(told: Option<&str>) -> String {
    match told {
        Some(told) if !told.trim().is_empty() => told.replace('/', " OR "),
        _ => "NOASSERTION".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn described() -> Value {
        let package = |name: &str| Package {
            name: name.to_owned(),
            version: "2:1.0-2+deb12u2".to_owned(),
            architecture: "amd64".to_owned(),
            source: "nftables".to_owned(),
            source_version: "1.0-2".to_owned(),
        };
        let crates = [
            Crate {
                name: "serde".to_owned(),
                version: "1.0.1".to_owned(),
                licence: Some("MIT/Apache-2.0".to_owned()),
                checksum: Some("ab".to_owned()),
            },
            Crate {
                name: "floe-core".to_owned(),
                version: "0.1.0".to_owned(),
                licence: None,
                checksum: None,
            },
        ];
        let image = Subject {
            name: "floe/agent",
            version: "0.1.0",
            digest: "sha256:12",
            distribution: "debian-12",
        };
        spdx(
            image,
            &[package("libnftables1"), package("nftables")],
            &crates,
        )
    }

    #[test]
    fn a_program_of_debian_is_named_with_its_source() {
        let text = described();
        let packages = text["packages"].as_array().unwrap();
        let nft = packages
            .iter()
            .find(|it| it["name"] == "nftables" && it["versionInfo"] == "2:1.0-2+deb12u2");
        let nft = nft.unwrap();
        assert_eq!(
            nft["sourceInfo"],
            "built from the Debian source package nftables 1.0-2"
        );
        assert_eq!(
            nft["externalRefs"][0]["referenceLocator"],
            "pkg:deb/debian/nftables@2%3A1.0-2%2Bdeb12u2?arch=amd64&distro=debian-12"
        );
        let from: Vec<_> = text["relationships"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|it| it["relationshipType"] == "GENERATED_FROM")
            .map(|it| it["relatedSpdxElement"].as_str().unwrap())
            .collect();
        assert_eq!(from, ["SPDXRef-debsrc-nftables-1.0-2"; 2]);
    }

    #[test]
    fn every_relation_is_between_things_that_are_listed_once() {
        let text = described();
        let ids: Vec<_> = text["packages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["SPDXID"].as_str().unwrap())
            .collect();
        let unique: BTreeSet<_> = ids.iter().copied().chain(["SPDXRef-DOCUMENT"]).collect();
        assert_eq!(unique.len(), ids.len() + 1, "{ids:?}");
        for relation in text["relationships"].as_array().unwrap() {
            for end in ["spdxElementId", "relatedSpdxElement"] {
                assert!(
                    unique.contains(relation[end].as_str().unwrap()),
                    "{relation}"
                );
            }
        }
        for id in unique {
            assert!(
                id.chars()
                    .all(|c| c.is_ascii_alphanumeric() || ".-".contains(c)),
                "{id}"
            );
        }
    }

    #[test]
    fn licences_of_crates_are_expressions() {
        let text = described();
        let of = |name: &str| {
            let all = text["packages"].as_array().unwrap();
            all.iter().find(|it| it["name"] == name).unwrap()["licenseDeclared"].clone()
        };
        assert_eq!(of("serde"), "MIT OR Apache-2.0");
        assert_eq!(of("floe-core"), "NOASSERTION");
    }
}
