//! Metrics as Prometheus reads them: the text format by default, and `OpenMetrics` for a client
//! that asks for it.

use std::{fmt, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use prometheus_client::{encoding::text, registry::Registry};

/// The content type of `OpenMetrics`.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The content type of the text format.
pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What `/metrics` serves.
struct Served {
    registry: Registry,
    plain_counters: &'static [&'static str],
}

/// The route `/metrics`, as a value.
///
/// `plain_counters` are the families that only grow although their names do not end in `_total`.
/// `OpenMetrics` knows no such counter, so they are `unknown` there; in the text format they
/// are counters.
pub fn router(registry: Registry, plain_counters: &'static [&'static str]) -> Router {
    let served = Served {
        registry,
        plain_counters,
    };
    Router::new()
        .route("/metrics", get(metrics))
        .with_state(Arc::new(served))
}

async fn metrics(State(served): State<Arc<Served>>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get_all(header::ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|it| it.to_str().ok()).collect();
    let (kind, rendered) = if wants_open_metrics(&accept.join(",")) {
        (OPEN_METRICS, render(&served.registry))
    } else {
        (TEXT, render_text(&served.registry, served.plain_counters))
    };
    match rendered {
        Ok(text) => (StatusCode::OK, [(header::CONTENT_TYPE, kind)], text),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
            format!("cannot write the metrics: {error}"),
        ),
    }
}

/// The metrics in `OpenMetrics`.
///
/// # Errors
///
/// A metric that cannot be written.
pub fn render(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(text)
}

/// The metrics in the text format, version 0.0.4.
///
/// # Errors
///
/// A metric that cannot be written.
pub fn render_text(registry: &Registry, plain_counters: &[&str]) -> Result<String, fmt::Error> {
    Ok(to_text(&render(registry)?, plain_counters))
}

/// Whether an `Accept` header asks for `OpenMetrics` by name, and does not prefer the text format.
fn wants_open_metrics(accept: &str) -> bool {
    let quality_of = |wanted: &str| {
        let ranges = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next()?;
            if !kind.eq_ignore_ascii_case(wanted) {
                return None;
            }
            let quality = parts.find_map(|it| it.strip_prefix("q=").or(it.strip_prefix("Q=")));
            // RFC 9110, section 12.4.2: without a weight it is 1.
            Some(quality.map_or(1.0, |it| it.parse().unwrap_or(0.0)))
        });
        ranges.fold(0.0_f64, f64::max)
    };
    let open_metrics = quality_of("application/openmetrics-text");
    open_metrics > 0.0 && open_metrics >= quality_of("text/plain")
}

/// `OpenMetrics` as text format. There a family is named as its samples are, so counters end in
/// `_total` and what is `info` is a gauge that ends in `_info`; units and the end have no lines.
fn to_text(open_metrics: &str, plain_counters: &[&str]) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // The help comes before the type, which decides how the family is named.
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "unknown"));
            let (ending, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "stateset" => ("", "gauge"),
                "unknown" if plain_counters.contains(&name) => ("", "counter"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            if let Some((_, words)) = help.take().filter(|(of, _)| *of == name) {
                add_line(&mut text, &["# HELP ", name, ending, " ", words]);
            }
            add_line(&mut text, &["# TYPE ", name, ending, " ", kind]);
        } else if !line.starts_with('#') {
            add_line(&mut text, &[line]);
        }
    }
    text
}

/// Adds a line that is made of these parts.
fn add_line(text: &mut String, parts: &[&str]) {
    text.extend(parts.iter().copied());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use axum::{
        body::{Body, to_bytes},
        http::Request,
    };
    use prometheus_client::{
        collector::Collector,
        encoding::DescriptorEncoder,
        metrics::{
            MetricType, counter::Counter, family::Family, gauge::Gauge, histogram::Histogram,
            info::Info,
        },
    };
    use tower::ServiceExt as _;

    use super::*;

    /// A family that only grows, under a name that does not end in `_total`.
    #[derive(Debug)]
    struct Plain;

    impl Collector for Plain {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let kind = MetricType::Unknown;
            let mut family = encoder.encode_descriptor("old_moves", "Moves.", None, kind)?;
            family.encode_gauge(&2.0)?;
            let mut family = encoder.encode_descriptor("odd", "What it is.", None, kind)?;
            family.encode_gauge(&1.0)
        }
    }

    fn registry() -> Registry {
        let mut registry = Registry::default();
        registry.register("build", "What was built", Info::new([("version", "1")]));
        let calls: Family<[(&str, &str); 1], Counter> = Family::default();
        calls.get_or_create(&[("call", "a # b")]).inc();
        registry.register("calls", "Calls", calls);
        registry.register("leads", "Whether it leads", Gauge::<i64>::default());
        let seconds = Histogram::new([0.5]);
        seconds.observe(0.25);
        registry.register("seconds", "Seconds", seconds);
        registry.register_collector(Box::new(Plain));
        registry
    }

    const AS_TEXT: &str = "\
# HELP build_info What was built.
# TYPE build_info gauge
build_info{version=\"1\"} 1
# HELP calls_total Calls.
# TYPE calls_total counter
calls_total{call=\"a # b\"} 1
# HELP leads Whether it leads.
# TYPE leads gauge
leads 0
# HELP seconds Seconds.
# TYPE seconds histogram
seconds_sum 0.25
seconds_count 1
seconds_bucket{le=\"0.5\"} 1
seconds_bucket{le=\"+Inf\"} 1
# HELP old_moves Moves.
# TYPE old_moves counter
old_moves 2.0
# HELP odd What it is.
# TYPE odd untyped
odd 1.0
";

    async fn scrape(accept: Option<&str>) -> (String, String) {
        let mut request = Request::get("/metrics");
        if let Some(accept) = accept {
            request = request.header("accept", accept);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = router(registry(), &["old_moves"]).oneshot(request).await;
        let response = response.unwrap();
        assert_eq!(response.status(), 200);
        let kind = response.headers()["content-type"].to_str().unwrap();
        let kind = kind.to_owned();
        let body = to_bytes(response.into_body(), 100_000).await.unwrap();
        (kind, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_text_format_is_served_unless_open_metrics_is_accepted() {
        for accept in [None, Some("*/*"), Some("text/plain")] {
            let (kind, text) = scrape(accept).await;
            assert_eq!(kind, TEXT, "{accept:?}");
            assert_eq!(text, AS_TEXT, "{accept:?}");
        }
        let (kind, text) = scrape(Some("application/openmetrics-text")).await;
        assert_eq!(kind, OPEN_METRICS);
        assert!(text.contains("# TYPE calls counter\n"), "{text}");
        assert!(text.contains("# TYPE old_moves unknown\n"), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn open_metrics_is_chosen_by_name_and_weight() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,\
                          text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, wanted) in [
            (prometheus, true),
            ("Application/OpenMetrics-Text", true),
            ("application/openmetrics-text, text/plain;q=0.5", true),
            ("text/plain, application/openmetrics-text; q=0.5", false),
            ("application/openmetrics-text;q=0", false),
            ("application/*", false),
            ("application/json", false),
            ("", false),
        ] {
            assert_eq!(wants_open_metrics(accept), wanted, "{accept}");
        }
    }
}
