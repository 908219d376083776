use std::sync::Mutex;

use floe_providers::{Answer, Func};

use super::*;

/// Answers what the test wants; hangs without an answer.
#[derive(Default)]
struct Scripted {
    calls: Mutex<Vec<(Func, String, IpAddr)>>,
    answer: Option<Result<(), ProviderError>>,
}

impl IpProvider for Scripted {
    fn assign<'a>(&'a self, node: &'a str, ip: IpAddr) -> Answer<'a> {
        self.answer(Func::Assign, node, ip)
    }

    fn unassign<'a>(&'a self, node: &'a str, ip: IpAddr) -> Answer<'a> {
        self.answer(Func::Unassign, node, ip)
    }
}

impl Scripted {
    fn answer<'a>(&'a self, func: Func, node: &'a str, ip: IpAddr) -> Answer<'a> {
        self.calls.lock().unwrap().push((func, node.into(), ip));
        Box::pin(async move {
            match &self.answer {
                Some(answer) => answer.clone(),
                None => std::future::pending().await,
            }
        })
    }
}

fn ip() -> IpAddr {
    "10.0.70.5".parse().unwrap()
}

#[tokio::test]
async fn without_a_provider_everything_succeeds() {
    for address in [None, Some("")] {
        let cloud = Cloud::new(address, &Metrics::default()).unwrap();
        assert_eq!(cloud.assign("n1", ip()).await, Ok(()));
        assert_eq!(cloud.unassign("n1", ip()).await, Ok(()));
    }
}

#[tokio::test]
async fn a_bad_address_is_told_at_the_start() {
    let error = Cloud::new(Some("nowhere"), &Metrics::default())
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        r#"cloud provider address "nowhere" is not host:port"#
    );
    assert!(Cloud::new(Some("localhost:80"), &Metrics::default()).is_ok());
}

#[tokio::test(start_paused = true)]
async fn calls_reach_the_provider_and_waiting_has_a_limit() {
    let metrics = Metrics::default();
    let good = Arc::new(Scripted {
        answer: Some(Ok(())),
        ..Scripted::default()
    });
    let cloud = Cloud::over(good.clone(), &metrics);
    assert_eq!(cloud.assign("n1", ip()).await, Ok(()));
    assert_eq!(cloud.unassign("n1", ip()).await, Ok(()));
    let calls = good.calls.lock().unwrap().clone();
    let want = [Func::Assign, Func::Unassign].map(|func| (func, "n1".to_owned(), ip()));
    assert_eq!(calls, want);

    let refusal = ProviderError::Refused {
        message: "no".into(),
    };
    let bad = Scripted {
        answer: Some(Err(refusal.clone())),
        ..Scripted::default()
    };
    let cloud = Cloud::over(Arc::new(bad), &metrics);
    assert_eq!(cloud.assign("n1", ip()).await, Err(refusal));

    let cloud = Cloud::over(Arc::new(Scripted::default()), &metrics);
    let begun = tokio::time::Instant::now();
    let late = |after| Err(ProviderError::Timeout { after });
    assert_eq!(cloud.assign("n1", ip()).await, late(ASSIGN));
    assert_eq!(begun.elapsed(), ASSIGN);
    assert_eq!(cloud.unassign("n2", ip()).await, late(UNASSIGN));
}
