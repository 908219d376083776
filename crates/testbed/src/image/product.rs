//! The images that floe ships: what is in them, and how they start.
//!
//! Tests run the same images, made from the programs that were just built.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use super::Image;
use super::debian::{Debian, File, Package};

/// Nobody in particular, who owns nothing.
const NONROOT: &str = "65532:65532";
const USERS: &str =
    "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n";
const GROUPS: &str = "root:x:0:\nnonroot:x:65532:\n";
/// Without it a name is asked of DNS before `/etc/hosts` is looked at.
const NAMES: &str = "hosts: files dns\n";
const LICENCE: &str = include_str!("../../../../LICENSE");

/// An image, and the packages of which it has files.
pub struct Product {
    /// The image.
    pub image: Image,
    /// The packages.
    pub packages: Vec<Package>,
}

/// The control plane. It talks to clouds by TLS, so it knows whom to trust.
pub fn controller(debian: &Debian, program: &Path) -> Result<Product> {
    let mut parts = Parts::new(debian);
    parts.program(program, "floe-controller")?;
    let certificates = debian.certificates()?;
    parts
        .image
        .text("etc/ssl/certs/ca-certificates.crt", &certificates);
    parts.names.insert("ca-certificates".to_owned());
    parts.image.user(NONROOT).start("/floe-controller");
    parts.finish()
}

/// The node side: the agent, the program that all its plugins are, and `nft`, which is a
/// program of its own.
pub fn agent(debian: &Debian, agent: &Path, plugins: &Path) -> Result<Product> {
    let mut parts = Parts::new(debian);
    parts.program(agent, "floe-agent")?;
    parts.program(plugins, "floe-cni")?;
    let nft = debian.file("nftables", "usr/sbin/nft")?;
    parts.program(&nft.from, &nft.to)?;
    parts.names.insert(nft.package);
    parts.image.start("/floe-agent");
    parts.finish()
}

struct Parts<'a> {
    debian: &'a Debian,
    image: Image,
    names: BTreeSet<String>,
}

impl<'a> Parts<'a> {
    fn new(debian: &'a Debian) -> Self {
        let mut image = Image::empty();
        image
            .text("etc/passwd", USERS)
            .text("etc/group", GROUPS)
            .text("etc/nsswitch.conf", NAMES)
            .text("usr/share/doc/floe/LICENSE", LICENCE);
        Self {
            debian,
            image,
            names: BTreeSet::new(),
        }
    }

    /// A program with its libraries.
    fn program(&mut self, from: &Path, to: &str) -> Result<()> {
        self.image.copy(from, to);
        for File { from, to, package } in self.debian.libraries(from)? {
            self.image.copy(&from, &to);
            self.names.insert(package);
        }
        Ok(())
    }

    /// With what the licences of the packages ask for.
    fn finish(mut self) -> Result<Product> {
        let mut packages = Vec::new();
        for name in &self.names {
            let copyright = self.debian.copyright(name)?;
            let place = format!("usr/share/doc/{name}/copyright");
            self.image.text(&place, &copyright);
            packages.push(self.debian.package(name)?.clone());
        }
        Ok(Product {
            image: self.image,
            packages,
        })
    }
}
