//! A card with virtual functions, as sysfs shows it.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use floe_core::cni::error::{CniError, Code};

use crate::fail::{fail, system};

/// Where the kernel shows links.
const LINKS: &str = "/sys/class/net";

/// Where the kernel shows PCI devices.
const DEVICES: &str = "/sys/bus/pci/devices";

/// How long new functions may take to get their drivers.
const PATIENCE: Duration = Duration::from_secs(30);

/// A card.
pub struct Card {
    name: String,
    folder: PathBuf,
}

/// A virtual function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its number on the card.
    pub number: u32,
    /// Its PCI address.
    pub pci: String,
}

impl Card {
    /// The card behind a link.
    pub fn of(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            folder: Path::new(LINKS).join(name).join("device"),
        }
    }

    /// The functions that pods may use. If the card has none they are made, at most
    /// `most`; the number that an administrator made is left alone.
    pub fn functions(&self, most: u32) -> Result<Vec<Function>, CniError> {
        let total = self.count("sriov_totalvfs")?;
        let most = most.min(total);
        if most == 0 {
            return Err(self.without_functions());
        }
        if self.count("sriov_numvfs")? == 0 {
            self.make(most)?;
        }
        let mut functions = Vec::new();
        for number in 0..most {
            let link = self.folder.join(format!("virtfn{number}"));
            match fs::read_link(&link) {
                Ok(target) => functions.extend(pci_of(&target).map(|pci| Function { number, pci })),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.unreadable(error)),
            }
        }
        Ok(functions)
    }

    fn make(&self, count: u32) -> Result<(), CniError> {
        let path = self.folder.join("sriov_numvfs");
        fs::write(&path, count.to_string())
            .map_err(system(format_args!("write {}", path.display())))?;
        // Their drivers come by themselves, one after the other.
        let deadline = Instant::now() + PATIENCE;
        let last = self.folder.join(format!("virtfn{}/net", count - 1));
        while !last.exists() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn count(&self, file: &str) -> Result<u32, CniError> {
        match fs::read_to_string(self.folder.join(file)) {
            Ok(text) => text.trim().parse().map_err(|_| self.without_functions()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.without_functions()),
            Err(error) => Err(self.unreadable(error)),
        }
    }

    fn without_functions(&self) -> CniError {
        let message = format!("device {} has no virtual functions", self.name);
        fail(Code::InvalidConfiguration, "NoVirtualFunctions", message)
    }

    fn unreadable(&self, error: io::Error) -> CniError {
        system(format_args!("read {}", self.folder.display()))(error)
    }
}

impl Function {
    /// Whether its card still has it.
    pub fn is_there(&self) -> bool {
        Path::new(DEVICES).join(&self.pci).exists()
    }

    /// The name of its link, if it is in the namespace of this process.
    pub fn link(&self) -> Option<String> {
        let folder = Path::new(DEVICES).join(&self.pci).join("net");
        let mut entries = fs::read_dir(folder).ok()?;
        entries.find_map(|entry| entry.ok()?.file_name().into_string().ok())
    }

    /// The name of its link, once it is in the namespace of this process.
    pub fn link_within(&self, limit: Duration) -> Option<String> {
        let deadline = Instant::now() + limit;
        loop {
            match self.link() {
                None if Instant::now() < deadline => thread::sleep(Duration::from_millis(20)),
                link => return link,
            }
        }
    }

    /// Lets its interrupts go to one processor after the other. Whoever balances
    /// interrupts on this host may do better, so a refusal means nothing.
    pub fn spread_interrupts(&self) {
        let Ok(entries) = fs::read_dir(Path::new(DEVICES).join(&self.pci).join("msi_irqs")) else {
            return;
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut interrupts: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
        interrupts.sort_unstable();
        let processors = thread::available_parallelism().map_or(1, usize::from);
        for (place, interrupt) in interrupts.into_iter().enumerate() {
            let file = format!("/proc/irq/{interrupt}/smp_affinity_list");
            let _ = fs::write(file, (place % processors).to_string());
        }
    }
}

/// The PCI address at the end of a path.
fn pci_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_no_card_is_told_so() {
        let Err(error) = Card::of("lo").functions(4) else {
            panic!("the loopback device has functions");
        };
        assert_eq!(error.reason, "NoVirtualFunctions");
        assert!(error.message.contains("lo"), "{error:?}");
    }
}
