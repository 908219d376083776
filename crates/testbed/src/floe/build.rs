//! Builds of floe: the one that was just made, and others that differ from it.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::host::sibling_program;
use crate::image::Image;
use crate::image::debian::Debian;
use crate::image::product;

/// The programs of a build.
pub struct Build {
    /// Where they are, if not beside this program.
    folder: Option<TempDir>,
}

/// The images of a build, by their digests.
pub struct Published {
    /// That of the controller.
    pub controller: String,
    /// That of the agent.
    pub agent: String,
}

impl Build {
    /// The one that was just made.
    pub fn current() -> Self {
        Self { folder: None }
    }

    /// One that does the same, of which each program is another file: it has a mark at its
    /// end, where no loader looks.
    pub fn marked(mark: &str) -> Result<Self> {
        let folder = TempDir::new()?;
        for name in ["floe-controller", "floe-agent", "floe-cni"] {
            let program = folder.path().join(name);
            fs::copy(sibling_program(name)?, &program)?;
            let mut file = fs::OpenOptions::new().append(true).open(&program)?;
            file.write_all(mark.as_bytes())?;
        }
        Ok(Self {
            folder: Some(folder),
        })
    }

    /// Makes its images, for nodes to pull by any tag from now on.
    pub fn publish(&self, cluster: &Cluster) -> Result<Published> {
        Ok(Published {
            controller: self.publish_controller(cluster)?,
            agent: self.publish_agent(cluster)?,
        })
    }

    /// The same of the controller alone; returns its digest.
    pub fn publish_controller(&self, cluster: &Cluster) -> Result<String> {
        let program = self.program("floe-controller")?;
        let image = product::controller(&Debian::ensure()?, &program)?.image;
        store(cluster, &image, "floe/controller")
    }

    /// The same of the agent alone.
    pub fn publish_agent(&self, cluster: &Cluster) -> Result<String> {
        let (agent, plugins) = (self.program("floe-agent")?, self.program("floe-cni")?);
        let image = product::agent(&Debian::ensure()?, &agent, &plugins)?.image;
        store(cluster, &image, "floe/agent")
    }

    fn program(&self, name: &str) -> Result<PathBuf> {
        match &self.folder {
            Some(folder) => Ok(folder.path().join(name)),
            None => sibling_program(name),
        }
    }
}

fn store(cluster: &Cluster, image: &Image, name: &str) -> Result<String> {
    let stored = image.store(&cluster.paths().registry(), &[name]);
    stored.with_context(|| format!("cannot make the image {name}"))
}
