//! The clock on the wall of one process, set forward or back while it runs.
//!
//! There is one such clock for the whole machine, and time namespaces have no other. But a
//! process reads it by code that the kernel puts into its memory (the vDSO), and what is
//! written there is the process's own.

use std::fs::{self, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use floe_testbed::cluster::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The code that reads clocks.
const READS_CLOCKS: &[u8] = b"__vdso_clock_gettime";

const LIMIT: Duration = Duration::from_secs(10);

/// Has the clock on the wall of a process be wrong by so many seconds from now on. Its other
/// clocks stay as they are.
pub async fn set_off(process: i32, seconds: i32) -> Result<()> {
    ensure!(
        cfg!(target_arch = "x86_64"),
        "the code is for another processor"
    );
    let code = code(seconds);
    let whole = whole(process)?;
    let memory = OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/{process}/mem"))?;
    let entry = whole.start + find(&memory, &whole)?;
    let length = u64::try_from(code.len())?;
    let pid = Pid::from_raw(process);
    wait::until("nobody reads a clock just now", LIMIT, async || {
        kill(pid, Signal::SIGSTOP)?;
        let written = async {
            stands_still(process).await?;
            ensure!(
                !is_inside(process, &(entry..entry + length))?,
                "a thread reads a clock"
            );
            Ok(memory.write_all_at(&code, entry)?)
        };
        let written = written.await;
        kill(pid, Signal::SIGCONT)?;
        written.map(Some)
    })
    .await
}

/// Asks the kernel instead, and adds seconds to what it says if that clock was asked for.
fn code(seconds: i32) -> Vec<u8> {
    let mut code = vec![
        0xb8, 0xe4, 0, 0, 0, // mov eax, SYS_clock_gettime
        0x0f, 0x05, // syscall
        0x85, 0xff, // test edi, edi: CLOCK_REALTIME is none
        0x75, 0x07, // jne: another clock
        0x48, 0x81, 0x06, // add qword ptr [rsi], seconds
    ];
    code.extend(seconds.to_le_bytes());
    code.push(0xc3); // ret
    code
}

/// Where the kernel's code is in the memory of a process.
fn whole(process: i32) -> Result<Range<u64>> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"));
    let range = line.and_then(|line| line.split_whitespace().next());
    let (from, to) = range
        .and_then(|range| range.split_once('-'))
        .context("it has no code of the kernel")?;
    Ok(u64::from_str_radix(from, 16)?..u64::from_str_radix(to, 16)?)
}

/// Where the code that reads clocks begins in it: it is an ELF file with a table of names.
fn find(memory: &File, whole: &Range<u64>) -> Result<u64> {
    const NAMES: u64 = 11;
    const ENTRY: usize = 24;
    let mut file = vec![0; usize::try_from(whole.end - whole.start)?];
    memory.read_exact_at(&mut file, whole.start)?;
    let number = |at: usize, length: usize| -> Result<u64> {
        let mut bytes = [0; 8];
        let found = file.get(at..at + length).context("it is no ELF file")?;
        bytes[..length].copy_from_slice(found);
        Ok(u64::from_le_bytes(bytes))
    };
    let place = |at: usize, length: usize| -> Result<usize> { Ok(number(at, length)?.try_into()?) };
    let (sections, size, count) = (place(0x28, 8)?, place(0x3a, 2)?, place(0x3c, 2)?);
    let section = |index: usize| sections + index * size;
    for index in 0..count {
        let table = section(index);
        if number(table + 4, 4)? != NAMES {
            continue;
        }
        let (entries, length) = (place(table + 0x18, 8)?, place(table + 0x20, 8)?);
        let texts = place(section(place(table + 0x28, 4)?) + 0x18, 8)?;
        for entry in (entries..entries + length).step_by(ENTRY) {
            let text = texts + place(entry, 4)?;
            let name = file
                .get(text..)
                .and_then(|it| it.split(|it| *it == 0).next());
            if name == Some(READS_CLOCKS) {
                return number(entry + 8, 8);
            }
        }
    }
    bail!("no code reads clocks")
}

/// The threads of a process.
fn threads(process: i32) -> Result<Vec<i32>> {
    let folder = fs::read_dir(format!("/proc/{process}/task"))?;
    let numbers = folder.flatten().map(|it| it.file_name());
    let numbers = numbers.filter_map(|it| it.to_str()?.parse().ok());
    Ok(numbers.collect())
}

/// Waits until no thread of a process runs.
async fn stands_still(process: i32) -> Result<()> {
    wait::until("it stands still", LIMIT, async || {
        for thread in threads(process)? {
            let stat = fs::read_to_string(format!("/proc/{process}/task/{thread}/stat"))?;
            // A name may have anything in it, and ends with the last bracket.
            let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
            ensure!(state == Some("T"), "thread {thread} is {state:?}");
        }
        Ok(Some(()))
    })
    .await
}

/// Whether a thread of a process that stands still is at this place.
fn is_inside(process: i32, place: &Range<u64>) -> Result<bool> {
    for thread in threads(process)? {
        let shown = fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall"))?;
        let counter = shown.split_whitespace().last().context("it is empty")?;
        let counter = u64::from_str_radix(counter.trim_start_matches("0x"), 16)?;
        if place.contains(&counter) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    use super::*;

    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            // It may have ended by itself.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn now() -> Result<i64> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        Ok(now.as_secs().try_into()?)
    }

    #[tokio::test]
    #[ignore = "needs a cluster's rights: cargo xtask test --only cluster"]
    async fn another_process_has_another_time_and_this_one_has_not() -> Result<()> {
        const FAR: i64 = 1800;
        // It tells the time for each line that it gets.
        let date = Command::new("stdbuf")
            .args(["-oL", "date", "-f", "-", "+%s"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut date = Ended(date);
        let process = i32::try_from(date.0.id())?;
        let mut questions = date.0.stdin.take().context("it is piped")?;
        let answers = date.0.stdout.take().context("it is piped")?;
        let mut answers = BufReader::new(answers).lines();
        let mut ahead = || -> Result<i64> {
            writeln!(questions, "now")?;
            let answer = answers.next().context("it has ended")??;
            Ok(answer.parse::<i64>()? - now()?)
        };
        assert!(ahead()?.abs() < FAR);
        let before = now()?;
        for seconds in [3600, -3600, 0] {
            set_off(process, seconds).await?;
            let found = ahead()?;
            assert!((found - i64::from(seconds)).abs() < FAR, "{found}");
        }
        assert!((now()? - before).abs() < FAR);
        Ok(())
    }
}
