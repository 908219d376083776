use super::*;

/// A scene in which `n1` serves with `n2` as its peer, and nobody can write leases.
async fn cut_off() -> Scene {
    let server = shared_by_two();
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    server.state().down = true;
    server.hang_up();
    scene
}

/// Answers all questions for so long.
async fn answer(scene: &mut Scene, granted: bool, span: Duration) -> usize {
    let end = Instant::now() + span;
    let mut count = 0;
    while let Ok(Some(said)) = tokio::time::timeout_at(end, scene.said.recv()).await {
        let Said::Ask {
            to, term, ticket, ..
        } = said
        else {
            panic!("{said:?}");
        };
        count += 1;
        let heard = Heard::Answer {
            by: to,
            term,
            ticket,
            granted,
        };
        scene.heard.send(heard).await.unwrap();
    }
    count
}

#[tokio::test(start_paused = true)]
async fn with_promises_of_all_peers_it_goes_on_and_without_them_it_is_silent() {
    let mut scene = cut_off().await;
    let asked = answer(&mut scene, true, Duration::from_mins(1)).await;
    assert!(asked > 50, "{asked}");
    assert!(scene.serves("web"));
    answer(&mut scene, false, Duration::from_millis(3100)).await;
    assert!(!scene.serves("web"));
    scene.server.state().down = false;
    scene.until_it_serves("web").await;
    assert_eq!(scene.status("web")["holder"]["term"], 2);
}

#[tokio::test(start_paused = true)]
async fn without_peers_it_goes_on_for_as_long_as_is_allowed() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_vip(&server, "web", &[candidate("a", "n1")], &Value::Null);
    let scene = Scene::start(&server);
    scene.until_it_serves("web").await;
    server.state().down = true;
    server.hang_up();
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert!(scene.serves("web"));
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert!(!scene.serves("web"));
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_and_the_promise_is_kept() {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_lease(&server, "n2", 4, "n1");
    let candidates = [candidate("a", "n1"), candidate("b", "n2")];
    put_vip(&server, "web", &candidates, &holding("b", "n2", 4));
    let mut scene = Scene::start(&server);
    server.until(|_| scene.kernel.role("web").is_some()).await;
    let ask = |ticket| Heard::Ask {
        by: "n2".into(),
        term: 4,
        ticket,
        back: promise::Back::for_test(),
    };
    for ticket in 1..=10 {
        scene.heard.send(ask(ticket)).await.unwrap();
        let said = scene.said.recv().await.unwrap();
        let Said::Answer {
            to,
            ticket: answered,
            refusal,
            ..
        } = said
        else {
            panic!("{said:?}");
        };
        assert_eq!((to.as_str(), answered, refusal), ("n2", ticket, None));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(scene.status("web")["holder"]["node"], "n2");
    }
    // Nobody asks any more, and the lease has been silent all the time.
    scene.until_it_serves("web").await;
    scene.heard.send(ask(11)).await.unwrap();
    let said = scene.said.recv().await.unwrap();
    assert!(
        matches!(
            said,
            Said::Answer {
                refusal: Some("TermOver"),
                ..
            }
        ),
        "{said:?}"
    );
}
