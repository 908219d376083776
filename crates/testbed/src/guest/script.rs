//! The two scripts of a job: from the first file system to the real one, and the job itself.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::{Error, GUEST_VARIABLE, Job, io_error};

/// Tags by which the guest mounts what QEMU shares.
pub(super) const ROOT_TAG: &str = "root";
pub(super) const CWD_TAG: &str = "cwd";
pub(super) const SHARE_TAG: &str = "job";
pub(super) const MODULES_TAG: &str = "modules";
/// Mount options for all of them.
pub(super) const NINE_P: &str = "trans=virtio,version=9p2000.L,msize=512000";
/// Files in the shared folder.
pub(super) const BOOT: &str = "boot.sh";
pub(super) const EXIT_CODE: &str = "exit-code";
const PROGRAM: &str = "job.sh";
/// Where the guest sees the shared folder.
const SHARE: &str = "/run/floe-guest";

/// Writes the scripts of `job` into its shared folder.
pub(super) fn write(job: &Job, share: &Path) -> Result<(), Error> {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let scripts = [
        (BOOT, boot(absolute(&job.cwd)?)),
        (PROGRAM, program(job, &variable("PATH"), &variable("HOME"))?),
    ];
    for (name, text) in scripts {
        fs::write(share.join(name), text).map_err(io_error("cannot write a script"))?;
    }
    Ok(())
}

/// The text of a path that means the same in the guest as on the host.
pub(super) fn absolute(path: &Path) -> Result<&str, Error> {
    match path.to_str() {
        Some(text) if path.is_absolute() => Ok(text),
        _ => Err(Error::Path(path.to_owned())),
    }
}

/// Runs as the first process, in the initramfs.
///
/// It changes root itself: the helper that loads modules for the kernel starts
/// in the root of the first process.
fn boot(cwd: &str) -> String {
    let cwd = quote(cwd);
    format!(
        "\
set -e
B=/bin/busybox
modules=/new/lib/modules/$($B uname -r)
$B mount -t 9p -o {NINE_P},ro,cache=loose {ROOT_TAG} /host
$B mount -t tmpfs memory /memory
$B mkdir /memory/upper /memory/work
$B mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work root /new
$B mount -t proc proc /new/proc
$B mount -t sysfs sys /new/sys
$B mount -t devtmpfs dev /new/dev
$B mkdir -p /new/dev/pts /new/dev/shm $modules
$B mount -t devpts pts /new/dev/pts
$B mount -t tmpfs shm /new/dev/shm
$B mount -t tmpfs run /new/run
$B mkdir -p /new{SHARE} /new/run/netns
$B mount -o move /job /new{SHARE}
$B mount -t 9p -o {NINE_P},ro,cache=loose {MODULES_TAG} $modules
$B mkdir -p /new{cwd}
$B mount -t 9p -o {NINE_P},cache=mmap {CWD_TAG} /new{cwd}
exec $B switch_root /new /bin/sh {SHARE}/{PROGRAM}
"
    )
}

/// Runs as the first process, in the host's file system.
fn program(job: &Job, path: &str, home: &str) -> Result<String, Error> {
    let igb = match job.igb_ports {
        0 => "",
        _ => "modprobe -a igb igbvf\n",
    };
    let mut command = String::from("env");
    for (name, value) in &job.env {
        let _ = write!(command, " {}", quote(&format!("{name}={value}")));
    }
    for word in std::iter::once(absolute(&job.program)?).chain(job.args.iter().map(String::as_str))
    {
        let _ = write!(command, " {}", quote(word));
    }
    // The program writes to a pipe: on a terminal it would colour its output.
    Ok(format!(
        "\
export PATH={path}:/usr/sbin:/usr/bin:/sbin:/bin HOME={home} {GUEST_VARIABLE}=1
dmesg -n 1
stty -F /dev/ttyS1 raw -echo
ip link set lo up
modprobe tun
{igb}cd {cwd}
{{ {command}; echo $? >{SHARE}/{EXIT_CODE}; }} 2>&1 </dev/null | cat >/dev/ttyS1
sync
echo o >/proc/sysrq-trigger
sleep 60
",
        path = quote(path),
        home = quote(home),
        cwd = quote(absolute(&job.cwd)?),
    ))
}

/// A word as the shell reads it literally.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    fn job() -> Job {
        Job {
            program: "/t/it's here".into(),
            args: vec![
                "--ignored".to_owned(),
                "a b".to_owned(),
                "$(x)\n".to_owned(),
            ],
            env: vec![("CI".to_owned(), "ye's".to_owned())],
            cwd: "/t/my tree".into(),
            igb_ports: 0,
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn words_survive_the_shell() {
        for word in ["", "a b", "it's", "$HOME `x` \\ \"\n*", "'"] {
            let script = format!("printf %s {}", quote(word));
            let output = Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }

    #[test]
    fn the_program_gets_its_words_and_variables() {
        let text = program(&job(), "/bin", "/root").unwrap();
        assert!(
            text.contains(r"{ env 'CI=ye'\''s' '/t/it'\''s here' '--ignored' 'a b' '$(x)"),
            "{text}"
        );
        assert!(text.contains("\ncd '/t/my tree'\n"), "{text}");
        assert!(text.contains("HOME='/root' FLOE_GUEST=1\n"), "{text}");
    }

    #[test]
    fn cards_bring_their_drivers() {
        assert!(!program(&job(), "", "").unwrap().contains("igb"));
        let job = Job {
            igb_ports: 2,
            ..job()
        };
        assert!(
            program(&job, "", "")
                .unwrap()
                .contains("modprobe -a igb igbvf\n")
        );
    }

    #[test]
    fn the_scripts_are_shell() {
        for text in [boot("/a'b"), program(&job(), "/bin", "/root").unwrap()] {
            let status = Command::new("sh")
                .args(["-n", "-c", &text])
                .status()
                .unwrap();
            assert!(status.success(), "{text}");
        }
    }

    #[test]
    fn a_relative_path_is_refused() {
        let job = Job {
            cwd: "tree".into(),
            ..job()
        };
        let refused = write(&job, Path::new("/no/such/folder")).unwrap_err();
        assert!(matches!(refused, Error::Path(path) if path == Path::new("tree")));
    }
}
