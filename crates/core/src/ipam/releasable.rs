//! What a list tells about the release of an address, and what is judged before
//! one is released.

use super::key::KeyParts;

/// What a cache says about the pod of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence<'a> {
    /// It is there, in this phase.
    Found {
        /// The phase, in the words of Kubernetes.
        phase: &'a str,
    },
    /// It is not there.
    Missing,
    /// Nobody can tell.
    Unknown,
}

/// Whether an address can be released, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement<'a> {
    /// No: it is reserved.
    Reserved,
    /// No: nobody has it.
    Free,
    /// Yes: it waits for a pod of a workload or pool.
    Spare,
    /// Yes: its pod is gone.
    PodGone,
    /// No: its pod is there, in this phase.
    PodThere(&'a str),
    /// No: nobody can tell.
    Unknown,
}

impl<'a> Judgement<'a> {
    /// Judges an address by the parts of its holder key. The first rule that fits
    /// decides, so a pod is only looked for when it matters.
    ///
    /// Compat: rules and their order are galaxy's, for the members `releasable` and
    /// `status` of its API. A pod that has finished still holds its address there.
    pub fn of(
        reserved: bool,
        holder: &KeyParts<'_>,
        pod: impl FnOnce(&str, &str) -> Presence<'a>,
    ) -> Self {
        let pool = holder.pool.unwrap_or_default();
        if reserved {
            Self::Reserved
        } else if holder.pod.is_empty() && holder.app.is_empty() && pool.is_empty() {
            Self::Free
        } else if holder.pod.is_empty() {
            Self::Spare
        } else {
            match pod(holder.namespace, holder.pod) {
                Presence::Found { phase } => Self::PodThere(phase),
                Presence::Missing => Self::PodGone,
                Presence::Unknown => Self::Unknown,
            }
        }
    }

    /// Whether it can be released.
    pub fn is_releasable(self) -> bool {
        match self {
            Self::Spare | Self::PodGone => true,
            Self::Reserved | Self::Free | Self::PodThere(_) | Self::Unknown => false,
        }
    }

    /// The status that galaxy's API shows.
    pub fn status(self) -> &'a str {
        match self {
            Self::Reserved | Self::Free => "",
            Self::Spare | Self::PodGone => "Deleted",
            Self::PodThere(phase) => phase,
            Self::Unknown => "Unknown",
        }
    }

    /// Why it is not released, in the words of galaxy's API.
    pub fn refusal(self) -> Option<String> {
        let status = self.status();
        (!self.is_releasable()).then(|| format!("releasable is false, pod status {status}"))
    }
}

/// What galaxy's API answers when not all addresses were released.
pub fn partly_released(released: usize, failed: usize) -> String {
    format!(
        "Released {released} ips, {failed} ips failed, please check the reasons why they failed"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let parts = |pool, app, pod| KeyParts {
            pool,
            kind: "dp",
            namespace: "ns",
            app,
            pod,
        };
        let running = Presence::Found { phase: "Running" };
        let failed = Presence::Found { phase: "Failed" };
        let (missing, unknown) = (Presence::Missing, Presence::Unknown);
        let table = [
            (false, parts(Some("p"), "", ""), running, true, "Deleted"),
            (false, parts(None, "a", ""), running, true, "Deleted"),
            (false, parts(None, "", ""), running, false, ""),
            (false, parts(Some(""), "", ""), running, false, ""),
            (false, parts(None, "a", "a-1"), running, false, "Running"),
            (false, parts(None, "a", "a-1"), failed, false, "Failed"),
            (false, parts(None, "a", "a-1"), missing, true, "Deleted"),
            (
                false,
                parts(Some("p"), "a", "a-1"),
                missing,
                true,
                "Deleted",
            ),
            (false, parts(None, "a", "a-1"), unknown, false, "Unknown"),
            (true, parts(None, "a", "a-1"), missing, false, ""),
            (true, parts(Some("p"), "", ""), missing, false, ""),
        ];
        for (reserved, holder, presence, releasable, status) in table {
            let judged = Judgement::of(reserved, &holder, |namespace, pod| {
                assert_eq!((namespace, pod), ("ns", "a-1"));
                presence
            });
            assert_eq!(
                judged.is_releasable(),
                releasable,
                "{holder:?} {presence:?}"
            );
            assert_eq!(judged.status(), status, "{holder:?} {presence:?}");
            assert_eq!(judged.refusal().is_none(), releasable);
        }
    }

    #[test]
    fn refusals_are_in_galaxys_words() {
        let text = |judged: Judgement<'_>| judged.refusal().unwrap();
        assert_eq!(
            text(Judgement::PodThere("Running")),
            "releasable is false, pod status Running"
        );
        assert_eq!(text(Judgement::Free), "releasable is false, pod status ");
        assert_eq!(
            partly_released(1, 2),
            "Released 1 ips, 2 ips failed, please check the reasons why they failed"
        );
    }
}
