//! DEL without the agent: what its state file tells, in reverse, as the agent would.

use std::{fs, io, path::Path, time::Duration};

use floe_core::{
    cni::{
        call::Call,
        error::{CniError, Code},
    },
    node::{arguments, state::State},
};
use floe_net::files;
use serde_json::Value;

use crate::{
    exec::Plugin,
    fail::{fail, system, unclean},
};

/// How long a plugin may take.
const LIMIT: Duration = Duration::from_secs(220);

/// Where plugins lie beside those that the runtime knows.
const MORE_PLUGINS: &str = "/opt/cni/galaxy/bin";

/// Detaches a pod by its state file. Without one there is nothing to do. What fails
/// stays in the file.
pub fn detach(folder: &Path, call: &Call) -> Result<(), CniError> {
    let path = folder.join(&call.container);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system(format_args!("read {}", path.display()))(error)),
    };
    let unreadable = |error: String| fail(Code::UndecodableContent, "StateUnreadable", error);
    let text = str::from_utf8(&text).map_err(|error| unreadable(error.to_string()))?;
    let state = State::parse(text).map_err(|error| unreadable(error.to_string()))?;
    let mut plugins = call.path.clone();
    plugins.push(MORE_PLUGINS.into());
    let mut errors = Vec::new();
    let mut left = State::default();
    for (place, attached) in state.attached.iter().enumerate().rev() {
        // Compat: a plugin sees the arguments of those before it, too.
        let all = state.attached[..=place].iter().flat_map(|it| &it.args);
        let all = all.map(|(name, value)| (name.clone(), value.clone()));
        // What cannot be told must not keep a pod from ever being deleted.
        let (args, _) = arguments::most(&call.args, &all.collect());
        let stdin = Value::Object(attached.conf.clone()).to_string();
        let env = [
            ("CNI_COMMAND", "DEL"),
            ("CNI_IFNAME", &attached.ifname),
            ("CNI_ARGS", &args.to_string()),
        ];
        let plugin = Plugin {
            name: attached.plugin(),
            path: &plugins,
            env: &env,
            stdin: stdin.as_bytes(),
            limit: LIMIT,
        };
        if let Err(error) = plugin.call() {
            errors.push(error);
            left.attached.insert(0, attached.clone());
        }
    }
    let kept = if left.attached.is_empty() {
        files::remove(&path).map(drop)
    } else {
        files::write(&path, left.to_json().as_bytes())
    };
    let kept = kept.map_err(system(format_args!("change {}", path.display())));
    errors.extend(kept.err());
    unclean(errors)
}
