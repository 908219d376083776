//! The emulated machine, as arguments of QEMU.

use std::path::Path;

use super::Error;
use super::image::Image;
use super::script::{self, CWD_TAG, MODULES_TAG, ROOT_TAG, SHARE_TAG};

/// Boots without pause, and ends instead of starting again after a panic.
/// Expedited RCU makes network namespaces come and go at once.
const KERNEL_ARGUMENTS: &str =
    "console=ttyS0 quiet panic=-1 mitigations=off rcupdate.rcu_expedited=1";

/// What a job needs of its machine.
pub(super) struct Machine<'a> {
    pub image: &'a Image,
    /// The folder shared for writing.
    pub cwd: &'a Path,
    /// The folder with the job's scripts.
    pub share: &'a Path,
    /// The file that gets the kernel's console.
    pub console: &'a Path,
    pub igb_ports: u8,
    pub kvm: bool,
}

impl Machine<'_> {
    pub(super) fn arguments(&self) -> Result<Vec<String>, Error> {
        let accelerator = if self.kvm { "kvm" } else { "tcg,thread=multi" };
        let mut arguments = words("-nodefaults -no-user-config -display none -no-reboot");
        arguments.extend(words("-machine q35 -cpu max -smp 2 -m 2G -accel"));
        arguments.push(accelerator.to_owned());
        for (option, path) in [
            ("-kernel", self.image.kernel()),
            ("-initrd", self.image.initramfs()),
        ] {
            arguments.extend([option.to_owned(), script::absolute(&path)?.to_owned()]);
        }
        arguments.extend(["-append".to_owned(), KERNEL_ARGUMENTS.to_owned()]);
        let console = format!("file,id=console,path={}", escaped(self.console)?);
        arguments.extend(["-chardev".to_owned(), console]);
        // No signal: Ctrl-C is for the process that started QEMU.
        arguments.extend(words("-chardev stdio,id=output,signal=off"));
        arguments.extend(words("-serial chardev:console -serial chardev:output"));
        for (tag, path, access) in [
            (ROOT_TAG, Path::new("/"), ",readonly=on"),
            (MODULES_TAG, &self.image.modules(), ",readonly=on"),
            (CWD_TAG, self.cwd, ""),
            (SHARE_TAG, self.share, ""),
        ] {
            let path = escaped(path)?;
            arguments.extend([
                "-fsdev".to_owned(),
                format!("local,id={tag},path={path},security_model=none,multidevs=remap{access}"),
                "-device".to_owned(),
                format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"),
            ]);
        }
        for port in 1..=self.igb_ports {
            arguments.extend(igb(port));
        }
        Ok(arguments)
    }
}

/// A network card with up to seven virtual functions, on a wire that all cards share.
fn igb(port: u8) -> Vec<String> {
    words(&format!(
        "-netdev hubport,id=wire{port},hubid=0 \
         -device pcie-root-port,id=slot{port},chassis={port},slot={port} \
         -device igb,bus=slot{port},netdev=wire{port},mac=52:54:00:f1:0e:{port:02x}"
    ))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A path inside a QEMU option, where a comma would end it.
fn escaped(path: &Path) -> Result<String, Error> {
    Ok(script::absolute(path)?.replace(',', ",,"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(igb_ports: u8, kvm: bool) -> String {
        let machine = Machine {
            image: &Image::at("/cache/k".into(), "6.1.0-9-amd64".to_owned()),
            cwd: Path::new("/src/a,b"),
            share: Path::new("/tmp/job/share"),
            console: Path::new("/tmp/job/console"),
            igb_ports,
            kvm,
        };
        machine.arguments().unwrap().join(" ")
    }

    #[test]
    fn the_host_is_shared_for_reading_and_only_the_folder_for_writing() {
        let arguments = arguments(0, false);
        for expected in [
            "-fsdev local,id=root,path=/,security_model=none,multidevs=remap,readonly=on",
            "-fsdev local,id=cwd,path=/src/a,,b,security_model=none,multidevs=remap -device",
            "id=modules,path=/cache/k/lib/modules/6.1.0-9-amd64,security_model=none,multidevs=remap,readonly=on",
            "-device virtio-9p-pci,fsdev=job,mount_tag=job",
            "-kernel /cache/k/kernel -initrd /cache/k/initramfs",
        ] {
            assert!(arguments.contains(expected), "{expected} in {arguments}");
        }
    }

    #[test]
    fn software_emulation_unless_kvm_works() {
        assert!(arguments(0, false).contains("-accel tcg,thread=multi"));
        assert!(arguments(0, true).contains("-accel kvm"));
    }

    #[test]
    fn cards_share_a_wire_and_have_addresses_of_their_own() {
        assert!(!arguments(0, false).contains("igb"));
        let arguments = arguments(2, false);
        assert_eq!(arguments.matches("hubid=0").count(), 2);
        assert!(arguments.contains("igb,bus=slot1,netdev=wire1,mac=52:54:00:f1:0e:01"));
        assert!(arguments.contains("igb,bus=slot2,netdev=wire2,mac=52:54:00:f1:0e:02"));
    }
}
