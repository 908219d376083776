//! How often somebody writes to the API server, by its own count.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use floe_testbed::cluster::Cluster;

/// The count of all requests since the API server has started.
const COUNTER: &str = "apiserver_request_total{";
/// Verbs that change something, as the count has them.
const WRITES: [&str; 6] = [
    "POST",
    "PUT",
    "PATCH",
    "APPLY",
    "DELETE",
    "DELETECOLLECTION",
];

/// How many writes there were, by what was written and how: `virtualips/status PATCH 200`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Writes(BTreeMap<String, f64>);

impl Writes {
    /// All since the API server has started.
    pub fn so_far(cluster: &Cluster) -> Result<Self> {
        Ok(count(&metrics(cluster)?))
    }

    /// Those since an earlier count.
    pub fn since(&self, before: &Self) -> Self {
        let mut since = self.clone();
        for (kind, count) in &before.0 {
            *since.0.entry(kind.clone()).or_default() -= count;
        }
        since.0.retain(|_, count| *count > 0.0);
        since
    }

    /// All of them, whatever was written.
    pub fn all(&self) -> f64 {
        self.0.values().sum()
    }

    /// Those of objects whose kind begins so, and that were not refused.
    pub fn of(&self, kind: &str) -> f64 {
        let its = self.0.iter();
        let its = its.filter(|(it, _)| it.starts_with(kind) && it.contains(" 20"));
        its.map(|(_, count)| count).sum()
    }

    /// Says on standard error what was written, the most first.
    pub fn tell(&self, title: &str) {
        let mut kinds: Vec<(&String, &f64)> = self.0.iter().collect();
        kinds.sort_by(|one, other| other.1.total_cmp(one.1));
        let words = kinds.iter().map(|(kind, count)| format!("{count} {kind}"));
        let words: Vec<String> = words.collect();
        eprintln!("    writes, {title}: {}", words.join(", "));
    }
}

/// All writes for each second of a time in which nothing is done.
pub async fn per_second(cluster: &Cluster, span: Duration) -> Result<f64> {
    let (before, started) = (Writes::so_far(cluster)?, Instant::now());
    tokio::time::sleep(span).await;
    let (after, took) = (Writes::so_far(cluster)?, started.elapsed());
    ensure!(
        after.all() >= before.all(),
        "the API server has started again"
    );
    let since = after.since(&before);
    since.tell("nothing happens");
    Ok(since.all() / took.as_secs_f64())
}

fn metrics(cluster: &Cluster) -> Result<String> {
    let output = cluster
        .kubectl()
        .args(["get", "--raw", "/metrics"])
        .output()?;
    ensure!(
        output.status.success(),
        "no metrics: {}",
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    let text = String::from_utf8(output.stdout)?;
    ensure!(text.contains(COUNTER), "the metrics have no {COUNTER}");
    Ok(text)
}

/// All writes that are kept. Questions that are posted, and tokens, are not.
fn count(metrics: &str) -> Writes {
    let lines = metrics
        .lines()
        .filter_map(|line| line.strip_prefix(COUNTER)?.rsplit_once("} "));
    let mut writes = Writes::default();
    for (labels, value) in lines {
        let of = |name| label(labels, name).unwrap_or_default();
        let (verb, resource, part) = (of("verb"), of("resource"), of("subresource"));
        let is_kept = WRITES.contains(&verb) && !resource.ends_with("reviews") && part != "token";
        if let Some(value) = value.trim().parse::<f64>().ok().filter(|_| is_kept) {
            let slash = if part.is_empty() { "" } else { "/" };
            let kind = format!("{resource}{slash}{part} {verb} {}", of("code"));
            *writes.0.entry(kind).or_default() += value;
        }
    }
    writes
}

/// The value of a label. None of those that are asked for has a quote in it.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.split(',').find_map(|label| {
        let value = label.strip_prefix(name)?.strip_prefix("=\"")?;
        value.strip_suffix('"')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_that_are_kept_are_counted_and_nothing_else() {
        let text = r#"# TYPE apiserver_request_total counter
apiserver_request_total{code="200",group="coordination.k8s.io",resource="leases",subresource="",verb="PUT"} 7
apiserver_request_total{code="409",group="floe.dev",resource="virtualips",subresource="status",verb="PATCH"} 2
apiserver_request_total{code="201",group="",resource="events",subresource="",verb="POST"} 1.5e+03
apiserver_request_total{code="200",group="",resource="pods",subresource="",verb="LIST"} 100
apiserver_request_total{code="201",group="",resource="serviceaccounts",subresource="token",verb="POST"} 50
apiserver_request_total{code="201",group="authorization.k8s.io",resource="subjectaccessreviews",subresource="",verb="POST"} 60
apiserver_request_duration_seconds_count{resource="leases",subresource="",verb="PUT"} 900
"#;
        let writes = count(text);
        assert!((writes.all() - 1509.0).abs() < 1e-9);
        assert!(count("").all() < 1e-9);
        assert!((writes.of("leases") - 7.0).abs() < 1e-9);
        // What was refused was asked for, but changed nothing.
        assert!(writes.of("virtualips") < 1e-9);
        let since = writes.since(&count(
            "apiserver_request_total{code=\"200\",resource=\"leases\",verb=\"PUT\"} 5",
        ));
        assert!((since.of("leases PUT") - 2.0).abs() < 1e-9);
    }
}
