//! The images that every cluster starts with.

use std::path::Path;

use anyhow::{Context, Result};

use crate::host::sibling_program;
use crate::image::Image;

/// Where Debian puts the statically linked busybox.
pub const BUSYBOX: &str = "/bin/busybox";

/// Makes the images of the testbed: the pause image, a shell, and stand-ins for
/// the images that the documented manifests name.
pub fn make(registry: &Path) -> Result<()> {
    let standin = sibling_program("standin")?;
    let busybox = Path::new(BUSYBOX);
    Image::empty()
        .program(&standin, "standin")?
        .arguments(&["pause"])
        .stop_at_once()
        .store(registry, &["testbed/pause"])
        .context("cannot make the pause image")?;
    Image::with_shell(busybox)?.stop_at_once().store(
        registry,
        &[
            "busybox",
            "generals-space/centos7",
            "generals-space/centos7-devops",
        ],
    )?;
    let mut web = Image::with_shell(busybox)?;
    web.program(&standin, "standin")?
        .arguments(&["serve", "80"])
        .stop_at_once();
    web.store(registry, &["nginx"])?;
    Ok(())
}
