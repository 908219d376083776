//! A vendor's own client, which a script in Python drives.

use std::process::Command;

use floe_testbed::python::Tool;

/// Runs a script with these arguments. It asserts what it sees, and says what it has tried.
pub async fn drive(tool: Tool, script: &'static str, arguments: Vec<String>) {
    let run = move || {
        let environment = tool.ensure().unwrap();
        let output = Command::new(environment.join("bin/python"))
            .args(["-c", script])
            .args(arguments)
            // Nothing of what it asks may leave this machine.
            .env("NO_PROXY", "*")
            .env("no_proxy", "*")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        eprintln!("{} {}:\n{said}", tool.name, tool.version);
        assert!(output.status.success(), "{said}\n{complained}");
        assert!(said.ends_with("all of it\n"), "it ended early: {said}");
    };
    // The fake answers on the same runtime meanwhile.
    tokio::task::spawn_blocking(run).await.unwrap();
}
