use std::{fs, os::unix::fs::PermissionsExt as _};

use serde_json::json;
use tempfile::TempDir;

use super::*;

/// A folder with plugins that are shell scripts.
pub struct Plugins {
    folder: TempDir,
}

impl Plugins {
    pub fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    /// Writes a plugin. Each call of it adds a line to the file of calls, then runs
    /// `script`, which finds its input in `$input` and its folder in `$here`.
    pub fn write(&self, kind: &str, script: &str) {
        let here = self.path();
        let text = format!(
            "#!/bin/sh\nhere={here}\ninput=$(cat)\n\
             echo \"$CNI_COMMAND {kind} $CNI_CONTAINERID $CNI_IFNAME\" >> $here/calls\n\
             echo \"$CNI_ARGS\" >> $here/{kind}.args\n\
             echo \"$input\" >> $here/{kind}.input\n{script}\n"
        );
        let file = self.folder.path().join(kind);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A plugin that succeeds with this result.
    pub fn good(&self, kind: &str, result: &Value) {
        self.write(
            kind,
            &format!("[ $CNI_COMMAND = ADD ] && echo '{result}'; exit 0"),
        );
    }

    pub fn path(&self) -> String {
        self.folder.path().to_str().unwrap().to_owned()
    }

    /// The lines of a file that the plugins wrote.
    pub fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    pub fn calls(&self) -> Vec<String> {
        self.lines("calls")
    }

    pub fn forget(&self) {
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some() || path.ends_with("calls") {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

async fn run(plugins: &Plugins, kind: &str, limit: Duration) -> Result<String, CniError> {
    let mut args = CniArgs::default();
    args.set("K8S_POD_NAME", "web-0").unwrap();
    let mut config = Map::new();
    config.insert("type".into(), json!(kind));
    let job = Job {
        command: Command::Add,
        kind,
        container: "c1",
        netns: "/run/netns/x",
        ifname: "eth0",
        args: &args,
        path: &["/nowhere/bin".to_owned()],
        config: &config,
    };
    let runner = Runner::new(vec![plugins.path()]).within(limit);
    let out = runner.run(job).await?;
    Ok(String::from_utf8(out).unwrap())
}

#[tokio::test]
async fn a_plugin_gets_its_configuration_and_nothing_of_the_agents_environment() {
    let plugins = Plugins::new();
    plugins.write(
        "good",
        "env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= | sort; echo \"$input\"",
    );
    let out = run(&plugins, "good", LIMIT).await.unwrap();
    let lines: Vec<&str> = out
        .lines()
        .filter(|line| !line.starts_with("PATH="))
        .collect();
    let path = format!("CNI_PATH=/nowhere/bin:{}", plugins.path());
    assert_eq!(
        lines,
        [
            "CNI_ARGS=K8S_POD_NAME=web-0",
            "CNI_COMMAND=ADD",
            "CNI_CONTAINERID=c1",
            "CNI_IFNAME=eth0",
            "CNI_NETNS=/run/netns/x",
            &path,
            r#"{"type":"good"}"#,
        ]
    );
}

#[tokio::test]
async fn what_a_plugin_says_about_its_failure_is_handed_on() {
    let plugins = Plugins::new();
    let object = |code: u32, msg: &str| {
        let error = json!({ "cniVersion": "1.0.0", "code": code, "msg": msg });
        format!("echo '{error}'; echo noise >&2; exit 1")
    };
    plugins.write(
        "conflict",
        &object(
            101,
            "AddressConflict: 10.0.0.5 is already in use by 02:42:0a:00:00:05",
        ),
    );
    plugins.write("foreign", &object(999, "no more leases"));
    plugins.write("silent", "exit 3");
    plugins.write(
        "crash",
        "echo first >&2; echo 'panic: at the end' >&2; echo >&2; exit 2",
    );
    let table = [
        (
            "conflict",
            "AddressConflict",
            "AddressConflict: 10.0.0.5 is already in use by 02:42:0a:00:00:05",
        ),
        (
            "foreign",
            "DelegateFailed",
            "DelegateFailed: foreign: no more leases",
        ),
        (
            "silent",
            "DelegateFailed",
            "DelegateFailed: silent: ended with exit status: 3 and told nothing",
        ),
        (
            "crash",
            "DelegateFailed",
            "DelegateFailed: crash: panic: at the end",
        ),
    ];
    for (kind, reason, text) in table {
        let error = run(&plugins, kind, LIMIT).await.unwrap_err();
        assert_eq!((error.reason, &*error.to_string()), (reason, text));
    }
}

#[tokio::test]
async fn a_plugin_that_is_not_there_or_lies_elsewhere_is_refused() {
    let plugins = Plugins::new();
    let error = run(&plugins, "missing", LIMIT).await.unwrap_err();
    assert_eq!(error.reason, "PluginNotFound");
    assert!(error.to_string().contains(&plugins.path()), "{error}");
    for kind in ["", ".", "..", "../bin/sh", "/bin/sh"] {
        let error = run(&plugins, kind, LIMIT).await.unwrap_err();
        assert_eq!(error.reason, "InvalidConfiguration", "{kind}");
    }
}

#[tokio::test]
async fn a_plugin_that_takes_too_long_is_ended_with_all_that_it_started() {
    let plugins = Plugins::new();
    // The child would hold the pipes open, and the file tells that it lives.
    plugins.write("slow", "(echo $$ > $here/slow.pid; sleep 600) & wait");
    let error = run(&plugins, "slow", Duration::from_secs(2))
        .await
        .unwrap_err();
    assert_eq!(error.reason, "DelegateTimedOut");
    let pid = plugins.lines("slow.pid");
    let pid: i32 = pid
        .first()
        .expect("the plugin has started")
        .parse()
        .unwrap();
    let group = Pid::from_raw(pid);
    // Those that were killed are collected by whoever has adopted them.
    for _ in 0..1000 {
        let alive = fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let fields: Vec<&str> = stat
                .rsplit(')')
                .next()
                .unwrap_or_default()
                .split_whitespace()
                .collect();
            fields.get(2) == Some(&group.to_string().as_str()) && fields[0] != "Z"
        });
        if !alive {
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
    panic!("something of the plugin still runs");
}

#[tokio::test]
async fn a_plugin_that_never_stops_printing_fills_no_memory() {
    let plugins = Plugins::new();
    plugins.write("loud", "head -c 3000000 /dev/zero");
    let out = run(&plugins, "loud", LIMIT).await.unwrap();
    assert_eq!(out.len(), 1 << 20);
}

#[tokio::test]
async fn a_plugin_that_does_not_read_its_input_is_no_failure() {
    let plugins = Plugins::new();
    let file = Path::new(&plugins.path()).join("deaf");
    fs::write(&file, "#!/bin/sh\nexec 0<&-\necho '{}'\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(run(&plugins, "deaf", LIMIT).await.unwrap(), "{}\n");
}
