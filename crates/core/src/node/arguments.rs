//! `CNI_ARGS` of a plugin: what the runtime says, and behind it what the pod was given.
//!
//! Who writes a pod chooses names and values of `common`. Some cannot be written, and
//! a process cannot be started with very long ones. An ADD refuses them, before
//! anything is noted. A DEL has to work whatever was noted, and goes without them.

use std::collections::BTreeMap;

use crate::cni::args::{CniArgs, CniArgsError, IPINFOS};

/// The longest `CNI_ARGS`, in bytes. The kernel starts no process with a variable of
/// 128 KiB or more.
pub const LONGEST: usize = 64 << 10;

/// Why a plugin cannot be told what the pod was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsError {
    /// A name or value cannot be written.
    #[error(transparent)]
    Unwritable(#[from] CniArgsError),
    /// Together they are too long.
    #[error("CNI_ARGS would have {0} bytes, at most {LONGEST} are allowed")]
    TooLong(usize),
}

impl ArgumentsError {
    /// The stable reason for answers, logs and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unwritable(error) => error.reason(),
            Self::TooLong(_) => "ArgsTooLong",
        }
    }
}

/// All of it, or why that cannot be. What the runtime says under the name of one that
/// the pod was given does not count: it was not checked.
pub fn all(runtime: &CniArgs, pod: &BTreeMap<String, String>) -> Result<CniArgs, ArgumentsError> {
    let mut args = runtime.clone();
    for (name, value) in pod {
        args.set_json(name, value)?;
    }
    let length = length(&args);
    if length > LONGEST {
        return Err(ArgumentsError::TooLong(length));
    }
    Ok(args)
}

/// As much of it as can be told, the addresses first, and why each of the others is left
/// out.
pub fn most(
    runtime: &CniArgs,
    pod: &BTreeMap<String, String>,
) -> (CniArgs, Vec<(String, ArgumentsError)>) {
    let mut args = runtime.clone();
    let mut left_out = Vec::new();
    let mut length = length(&args);
    let (addresses, others): (Vec<_>, Vec<_>) = pod.iter().partition(|(name, _)| *name == IPINFOS);
    for (name, value) in addresses.into_iter().chain(others) {
        // At most: one of the runtime may have to go for it.
        let longer = length + part(name, value) + value.matches(';').count() * "u003b".len();
        let set = if longer > LONGEST {
            Err(ArgumentsError::TooLong(longer))
        } else {
            args.set_json(name, value).map_err(Into::into)
        };
        match set {
            Ok(()) => length = longer,
            Err(error) => left_out.push((name.clone(), error)),
        }
    }
    (args, left_out)
}

fn length(args: &CniArgs) -> usize {
    args.iter().map(|(name, value)| part(name, value)).sum()
}

/// The length of a name and its value, with what stands between and behind them.
fn part(name: &str, value: &str) -> usize {
    name.len() + value.len() + "=;".len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(members: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = members
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    #[test]
    fn what_the_pod_was_given_stands_behind_what_the_runtime_says_and_replaces_it() {
        let runtime = CniArgs::parse("K8S_POD_NAME=a;mtu=9000").unwrap();
        let args = all(&runtime, &pod(&[("mtu", "1400"), ("words", r#"["a;b"]"#)])).unwrap();
        let want = r#"K8S_POD_NAME=a;mtu=1400;words=["a\u003bb"]"#;
        assert_eq!(args.to_string(), want);
    }

    #[test]
    fn what_cannot_be_told_is_refused_or_left_out_and_the_addresses_come_first() {
        let runtime = CniArgs::parse("K8S_POD_NAME=a").unwrap();
        let long = "1".repeat(LONGEST);
        for (name, value, reason) in [
            ("", "1", "InvalidArgs"),
            (" x", "1", "InvalidArgs"),
            ("a=b", "1", "InvalidArgs"),
            ("a;b", "1", "InvalidArgs"),
            ("a", "\0", "InvalidArgs"),
            ("a", &*long, "ArgsTooLong"),
        ] {
            let told = pod(&[(name, value), (IPINFOS, "[]")]);
            assert_eq!(
                all(&runtime, &told).unwrap_err().reason(),
                reason,
                "{name:?}"
            );
            let (args, left_out) = most(&runtime, &told);
            assert_eq!(args.to_string(), "K8S_POD_NAME=a;ipinfos=[]");
            assert_eq!(left_out.len(), 1);
            assert_eq!((&*left_out[0].0, left_out[0].1.reason()), (name, reason));
        }
    }

    #[test]
    fn the_limit_is_for_all_of_them_together() {
        let half = "1".repeat(LONGEST / 2);
        let told = pod(&[("a", &half), ("b", &half)]);
        assert_eq!(
            all(&CniArgs::default(), &told).unwrap_err().reason(),
            "ArgsTooLong"
        );
        let (args, left_out) = most(&CniArgs::default(), &told);
        assert!(args.get("a").is_some() && args.to_string().len() <= LONGEST);
        assert_eq!(left_out.len(), 1);
        let fits = pod(&[("a", &half)]);
        assert_eq!(all(&CniArgs::default(), &fits).unwrap(), args);
    }
}
