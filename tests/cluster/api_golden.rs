//! galaxy's API, call by call: the files in `golden` have requests and what must be
//! answered, in the order in which they are sent to the controller.
//!
//! In a file, `>` begins a line of a request: method and path, then headers, then the
//! body. `<` has the status, and headers. What follows is the body, member by member in
//! its order; blanks do not count, and times other than "none" are `<time>`. Instead of a
//! body, `=` has the addresses of a page in their order, and `~` a text in the body.
//! `{ns}` is the namespace of the test.

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use regex::{Captures, Regex};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::api::{Answer, Caller, forget_all, only_configure};
use crate::holdings::{ARGS, POLICY, addresses};
use crate::racks;

const FILES: [(&str, &str); 4] = [
    ("lists", include_str!("golden/lists.http")),
    ("manners", include_str!("golden/manners.http")),
    ("release", include_str!("golden/release.http")),
    ("pools", include_str!("golden/pools.http")),
];

const RECORDS: &str = include_str!("golden/records.yaml");

/// Fourteen addresses in the place of all others, for the nodes of the rack `reserve`.
const ENTRIES: &str = r#"[{"nodeSubnets":["10.23.0.0/24"],"ips":["10.0.99.2~10.0.99.15"],"subnet":"10.0.99.0/24","gateway":"10.0.99.1"}]"#;
const TOTAL: &str =
    r#"galaxy_ip_counter{type="total",subnet="10.0.99.0/24",first_ip="10.0.99.2"} 14"#;

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn each_call_of_the_corpus_is_answered_as_galaxy_would() -> Result<()> {
    let cluster = racks::alone().await?;
    only_configure(&cluster, ENTRIES, TOTAL).await?;
    let namespace = TestNamespace::create(&cluster, "golden").await?;
    let run = run(&namespace).await;
    // Whatever came of it, the next test finds nothing of it.
    for left in [["statefulset", "web"], ["pod", "imposter"]] {
        namespace.kubectl(&[&["delete", "--ignore-not-found"], &left[..]].concat())?;
    }
    forget_all(&cluster).await?;
    run
}

async fn run(namespace: &TestNamespace<'_>) -> Result<()> {
    let cluster = namespace.cluster();
    let operator = Caller::operator(cluster).await?;
    begin(namespace, &operator).await?;
    let mut wrong = Vec::new();
    for (file, text) in FILES {
        let text = text.replace("{ns}", namespace.name());
        for exchange in Exchange::read(&text)? {
            let answer = exchange.send(&operator)?;
            if let Err(why) = exchange.expects(&answer) {
                wrong.push(format!(
                    "{file}: {} {}: {why:#}",
                    exchange.method, exchange.path
                ));
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

/// Whoever may write the status of a pod has it show an address of somebody else.
const SHOWS: &str = r#"{"status":{"podIP":"10.0.99.12","podIPs":[{"ip":"10.0.99.12"}]}}"#;

/// A pod runs with 10.0.99.5, and one shows 10.0.99.12 that has the record of another; all
/// others have records alone.
async fn begin(namespace: &TestNamespace<'_>, operator: &Caller) -> Result<()> {
    let wishes = json!({ ARGS: r#"{"request_ip_range":[["10.0.99.5"]]}"#, POLICY: "immutable" });
    let web = racks::workload("StatefulSet", "web", 1, &wishes);
    namespace.apply(&racks::in_rack(web, "reserve").to_string())?;
    addresses(namespace, "app=web", 1).await?;
    // No scheduler cares for it.
    let mut imposter = racks::pod("imposter", &json!({}));
    imposter["spec"]["schedulerName"] = "nobody".into();
    namespace.apply(&imposter.to_string())?;
    let status = ["patch", "pod", "imposter", "--subresource=status"];
    namespace.kubectl(&[&status[..], &["--type=merge", "--patch", SHOWS]].concat())?;
    Cluster::apply(namespace.cluster(), RECORDS, "default")?;
    let held = RECORDS.matches("kind: FloatingIP").count() + 1;
    wait::until("all records are known", LIMIT, async || {
        let page = operator.get("/v1/ip?keyword=_")?.json()?;
        let running = operator.get("/v1/ip?keyword=web-0")?.json()?;
        let (total, status) = (&page["totalElements"], &running["content"][0]["status"]);
        ensure!(*total == held && status == "Running", "{page} {running}");
        let wish = json!({ "ips": [{ "ip": "10.0.99.12" }], "dryRun": true });
        let shown = operator.post("/v2/ips/release", &wish)?.json()?;
        ensure!(shown["results"][0]["reason"] == "PodRuns", "{shown}");
        Ok(Some(()))
    })
    .await
}

/// A request, and what must be answered.
#[derive(Default)]
struct Exchange {
    method: String,
    path: String,
    headers: Vec<String>,
    body: Option<String>,
    status: u16,
    answered: Vec<String>,
    expected: Expected,
}

#[derive(Default)]
enum Expected {
    #[default]
    Nothing,
    Body(String),
    Addresses(Vec<String>),
    Text(String),
}

impl Exchange {
    fn read(text: &str) -> Result<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        let mut asks = false;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let (mark, rest) = line.split_at(1);
            let rest = rest.trim();
            if mark == ">" && !asks {
                let (method, path) = rest.split_once(' ').context("no path")?;
                all.push(Self {
                    method: method.to_owned(),
                    path: path.to_owned(),
                    ..Self::default()
                });
                asks = true;
                continue;
            }
            if mark == "#" {
                continue;
            }
            let now = all.last_mut().context("an answer without a request")?;
            asks = mark == ">";
            match mark {
                ">" if now.body.is_none() && is_header(rest) => now.headers.push(rest.to_owned()),
                ">" => now.body.get_or_insert_default().push_str(rest),
                "<" if now.status == 0 => now.status = rest.parse()?,
                "<" => now.answered.push(rest.to_owned()),
                "=" => {
                    let ips = rest.split_whitespace().map(str::to_owned);
                    now.expected = Expected::Addresses(ips.collect());
                }
                "~" => now.expected = Expected::Text(rest.to_owned()),
                _ if matches!(now.expected, Expected::Nothing) => {
                    now.expected = Expected::Body(line.to_owned());
                }
                _ => {
                    if let Expected::Body(body) = &mut now.expected {
                        body.push_str(line);
                    }
                }
            }
        }
        Ok(all)
    }

    fn send(&self, caller: &Caller) -> Result<Answer> {
        let headers: Vec<&str> = self.headers.iter().map(String::as_str).collect();
        caller.call(&self.method, &self.path, &headers, self.body.as_deref())
    }

    fn expects(&self, answer: &Answer) -> Result<()> {
        let Answer { status, body, .. } = answer;
        ensure!(self.status == *status, "{status} {body}");
        for header in &self.answered {
            let (name, value) = header.split_once(": ").context("no header")?;
            let found = answer.header(name);
            ensure!(found == Some(value), "{name} is {found:?}");
        }
        match &self.expected {
            Expected::Nothing => ensure!(body.is_empty(), "answered {body}"),
            Expected::Body(wanted) => {
                let (wanted, found) = (comparable(wanted), comparable(body));
                ensure!(wanted == found, "answered\n{found}\ninstead of\n{wanted}");
            }
            Expected::Addresses(wanted) => {
                let page: Value = serde_json::from_str(body)?;
                let content = page["content"].as_array().cloned().unwrap_or_default();
                let found: Vec<_> = content.iter().filter_map(|it| it["ip"].as_str()).collect();
                ensure!(found == *wanted, "answered {found:?} instead of {wanted:?}");
            }
            Expected::Text(wanted) => ensure!(body.contains(wanted), "answered {body}"),
        }
        Ok(())
    }
}

fn is_header(line: &str) -> bool {
    let name = line.split_once(": ").map(|(name, _)| name);
    let word = |name: &str| name.chars().all(|it| it.is_ascii_alphabetic() || it == '-');
    name.is_some_and(word)
}

/// JSON without blanks between its parts, and without times. The order of members stays.
pub fn comparable(json: &str) -> String {
    let (mut inside, mut escaped) = (false, false);
    let kept = json.chars().filter(|it| {
        let keep = inside || !it.is_whitespace();
        if *it == '"' && !escaped {
            inside = !inside;
        }
        escaped = inside && *it == '\\' && !escaped;
        keep
    });
    let kept: String = kept.collect();
    let time = Regex::new(r#""updateTime":"(\d{4})-[^"]*Z""#).expect("it is an expression");
    let masked = time.replace_all(&kept, |found: &Captures<'_>| match &found[1] {
        "0001" => found[0].to_owned(),
        _ => r#""updateTime":"<time>""#.to_owned(),
    });
    masked.into_owned()
}
