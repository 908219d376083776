//! How often somebody writes to the API server, by its own count.

use std::time::{Duration, Instant};

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

/// All writes for each second of a time in which nothing is done.
pub async fn per_second(cluster: &Cluster, span: Duration) -> Result<f64> {
    let (before, started) = (count(&metrics(cluster)?), Instant::now());
    tokio::time::sleep(span).await;
    let (after, took) = (count(&metrics(cluster)?), started.elapsed());
    ensure!(after >= before, "the API server has started again");
    Ok((after - before) / took.as_secs_f64())
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
fn count(metrics: &str) -> f64 {
    let lines = metrics
        .lines()
        .filter_map(|line| line.strip_prefix(COUNTER)?.rsplit_once("} "));
    lines
        .filter(|(labels, _)| {
            label(labels, "verb").is_some_and(|it| WRITES.contains(&it))
                && !label(labels, "resource").is_some_and(|it| it.ends_with("reviews"))
                && label(labels, "subresource") != Some("token")
        })
        .filter_map(|(_, value)| value.trim().parse::<f64>().ok())
        .sum()
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
        assert!((count(text) - 1509.0).abs() < 1e-9);
        assert!(count("") < 1e-9);
    }
}
