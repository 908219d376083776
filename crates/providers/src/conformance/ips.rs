//! The suite of clouds.

mod scene;
mod stage;

use floe_core::nodepool::cloud::{Class, Mark};

use super::report::{Checked, Report, cannot, demand};
pub use scene::Scene;
pub use stage::Stage;

/// Runs each of these on a stage that was cleared before.
macro_rules! checks {
    ($report:ident, $stage:ident, [$($check:ident),+ $(,)?]) => {
        $(
            let checked = match $stage.clear().await {
                Ok(()) => $check(&$stage).await,
                Err(miss) => Err(miss),
            };
            $report.add(stringify!($check), checked);
        )+
    };
}
pub(super) use checks;

/// What every cloud passes.
pub async fn every_cloud(scene: &dyn Scene) -> Report {
    let mut report = Report::new(scene.title());
    let stage = Stage::new(scene);
    checks!(
        report,
        stage,
        [
            lists_every_address_once,
            puts_an_address_on_a_server,
            the_same_order_again_changes_nothing,
            moves_an_address,
            takes_an_address_off_and_again,
            has_both_families_on_one_server,
            a_second_address_on_one_server,
            refuses_an_unknown_address,
            refuses_an_unknown_server,
            refuses_a_server_of_another_cloud,
            finds_what_it_bought_by_its_mark,
            releases_only_with_the_right_mark,
            never_releases_what_it_did_not_buy,
            releases_twice,
            buys_no_more_than_the_quota,
            says_that_an_address_is_busy,
            refuses_strangers_without_telling_the_secret,
            lets_an_address_go_on_when_its_server_is_gone,
        ]
    );
    // What the last one leaves behind.
    report.add("leaves_addresses_on_no_server", stage.clear().await);
    report
}

async fn lists_every_address_once(stage: &Stage<'_>) -> Checked {
    let listed = stage.list().await?;
    for ip in stage.scene.addresses() {
        let mut of_it = listed.iter().filter(|listed| listed.ip == ip);
        let found = of_it.next().ok_or(format!("{ip} is not in the list"))?;
        demand(of_it.next().is_none(), || format!("{ip} is listed twice"))?;
        demand(
            found.server.is_none() && !found.busy && found.mark.is_none(),
            || format!("it should be free: {found:?}"),
        )?;
    }
    let unknown = stage.scene.unknown_address();
    demand(listed.iter().all(|listed| listed.ip != unknown), || {
        format!("{unknown} should be unknown")
    })
}

async fn puts_an_address_on_a_server(stage: &Stage<'_>) -> Checked {
    let (ip, server) = (stage.ip(), stage.server(0));
    stage.put(ip, &server).await?;
    stage.expect_on(ip, Some(&server)).await?;
    let others = stage.list().await?;
    let on_servers = others.iter().filter(|listed| listed.server.is_some());
    demand(on_servers.count() == 1, || {
        format!("more than one address moved: {others:?}")
    })
}

async fn the_same_order_again_changes_nothing(stage: &Stage<'_>) -> Checked {
    let (ip, server) = (stage.ip(), stage.server(0));
    for _ in 0..3 {
        stage.put(ip, &server).await?;
        stage.expect_on(ip, Some(&server)).await?;
    }
    Ok(())
}

async fn moves_an_address(stage: &Stage<'_>) -> Checked {
    let (ip, from, to) = (stage.ip(), stage.server(0), stage.server(1));
    stage.put(ip, &from).await?;
    if !stage.capabilities().steals {
        stage.expect_refusal(stage.ips().assign(ip, &to).await, &[Class::HeldElsewhere])?;
        stage.expect_on(ip, Some(&from)).await?;
        stage.free(ip).await?;
    }
    stage.put(ip, &to).await?;
    stage.expect_on(ip, Some(&to)).await?;
    // And back, in case it works one way only.
    if !stage.capabilities().steals {
        stage.free(ip).await?;
    }
    stage.put(ip, &from).await?;
    stage.expect_on(ip, Some(&from)).await
}

async fn takes_an_address_off_and_again(stage: &Stage<'_>) -> Checked {
    let (ip, server) = (stage.ip(), stage.server(0));
    stage.put(ip, &server).await?;
    for _ in 0..2 {
        stage.free(ip).await?;
        stage.expect_on(ip, None).await?;
    }
    Ok(())
}

async fn has_both_families_on_one_server(stage: &Stage<'_>) -> Checked {
    let capabilities = stage.capabilities();
    if !(capabilities.v4 && capabilities.v6) {
        return Err(cannot("it has one family only"));
    }
    let addresses = stage.scene.addresses();
    let v4 = addresses.iter().find(|ip| ip.is_ipv4());
    let v6 = addresses.iter().find(|ip| ip.is_ipv6());
    let (Some(v4), Some(v6)) = (v4, v6) else {
        return Err(cannot("the scene has addresses of one family only"));
    };
    let server = stage.server(0);
    for ip in [*v4, *v6] {
        stage.put(ip, &server).await?;
    }
    for ip in [*v4, *v6] {
        stage.expect_on(ip, Some(&server)).await?;
    }
    stage.free(*v6).await?;
    stage.expect_on(*v4, Some(&server)).await?;
    stage.expect_on(*v6, None).await
}

async fn a_second_address_on_one_server(stage: &Stage<'_>) -> Checked {
    let capabilities = stage.capabilities();
    let family = stage.family();
    let room = capabilities.per_server.unwrap_or(family.len() - 1);
    if family.len() <= room {
        return Err(cannot(format!("it takes {} addresses", room + 1)));
    }
    let server = stage.server(0);
    for ip in &family[..room] {
        stage.put(*ip, &server).await?;
    }
    let more = family[room];
    if capabilities.per_server.is_none() {
        stage.put(more, &server).await?;
        for ip in &family[..=room] {
            stage.expect_on(*ip, Some(&server)).await?;
        }
        return Ok(());
    }
    match stage.ips().assign(more, &server).await {
        Err(refusal) => {
            demand(refusal.class == Class::ServerTaken, || {
                format!("{refusal:?} instead of ServerTaken")
            })?;
            for ip in &family[..room] {
                stage.expect_on(*ip, Some(&server)).await?;
            }
            stage.expect_on(more, None).await
        }
        Ok(taken) if capabilities.displaces => {
            stage.end(more, taken).await?;
            stage.expect_on(more, Some(&server)).await?;
            stage.expect_on(family[0], None).await
        }
        Ok(taken) => Err(format!("it should have refused: {taken:?}").into()),
    }
}

async fn refuses_an_unknown_address(stage: &Stage<'_>) -> Checked {
    let (ip, server) = (stage.scene.unknown_address(), stage.server(0));
    let unknown = [Class::AddressUnknown];
    stage.expect_refusal(stage.ips().assign(ip, &server).await, &unknown)?;
    stage.expect_refusal(stage.ips().detach(ip).await, &unknown)
}

async fn refuses_an_unknown_server(stage: &Stage<'_>) -> Checked {
    let (ip, unknown) = (stage.ip(), stage.scene.unknown_server());
    let answer = stage.ips().assign(ip, &unknown).await;
    stage.expect_refusal(answer, &[Class::ServerUnknown])?;
    stage.expect_on(ip, None).await
}

async fn refuses_a_server_of_another_cloud(stage: &Stage<'_>) -> Checked {
    let ip = stage.ip();
    for server in ["elsewhere://1", "", "1", "elsewhere:///a/b"] {
        let answer = stage.ips().assign(ip, server).await;
        stage.expect_refusal(answer, &[Class::Invalid])?;
    }
    stage.expect_on(ip, None).await
}

async fn finds_what_it_bought_by_its_mark(stage: &Stage<'_>) -> Checked {
    let before = stage.list().await?.len();
    let capabilities = stage.capabilities();
    let mut bought = Vec::new();
    for v6 in stage.bought_families()? {
        let mark = stage.mark();
        let ip = stage.buy(v6, &mark).await?;
        let listed = stage.find(ip).await?;
        let listed = listed.ok_or(format!("{ip} was bought and is not in the list"))?;
        let expected = capabilities.marks.then(|| mark.clone());
        demand(listed.mark == expected, || {
            format!("marked {expected:?}, listed {listed:?}")
        })?;
        demand(listed.server.is_none(), || {
            format!("it is in use: {listed:?}")
        })?;
        bought.push((ip, mark));
    }
    let after = stage.list().await?.len();
    demand(after == before + bought.len(), || {
        format!("{before} addresses before, {after} after")
    })?;
    // It can be used like any other.
    for (ip, _) in &bought {
        let server = stage.server(1);
        stage.put(*ip, &server).await?;
        stage.expect_on(*ip, Some(&server)).await?;
        stage.free(*ip).await?;
    }
    Ok(())
}

async fn releases_only_with_the_right_mark(stage: &Stage<'_>) -> Checked {
    for v6 in stage.bought_families()? {
        let mark = stage.mark();
        let ip = stage.buy(v6, &mark).await?;
        let others = [
            Mark {
                cluster: "another".into(),
                ..mark.clone()
            },
            Mark {
                pool: "another".into(),
                ..mark.clone()
            },
            Mark {
                purchase: "another".into(),
                ..mark.clone()
            },
        ];
        for other in &others {
            let answer = stage.ips().release(ip, other).await;
            stage.expect_refusal(answer, &[Class::HeldElsewhere])?;
        }
        let found = stage.find(ip).await?;
        demand(found.is_some(), || format!("{ip} was released"))?;
        if stage.capabilities().marks {
            let released = stage.ips().release(ip, &mark).await;
            released.map_err(|refusal| format!("not released: {refusal:?}"))?;
            let found = stage.find(ip).await?;
            demand(found.is_none(), || format!("still there: {found:?}"))?;
        } else {
            // Nothing proves it, so nothing is given back.
            let answer = stage.ips().release(ip, &mark).await;
            stage.expect_refusal(answer, &[Class::HeldElsewhere])?;
        }
    }
    Ok(())
}

async fn never_releases_what_it_did_not_buy(stage: &Stage<'_>) -> Checked {
    for ip in stage.scene.addresses() {
        let answer = stage.ips().release(ip, &stage.mark()).await;
        stage.expect_refusal(answer, &[Class::HeldElsewhere])?;
        let found = stage.find(ip).await?;
        demand(found.is_some(), || format!("{ip} was released"))?;
    }
    Ok(())
}

async fn releases_twice(stage: &Stage<'_>) -> Checked {
    stage.needs_marks()?;
    let mark = stage.mark();
    let v6 = stage.bought_families()?[0];
    let ip = stage.buy(v6, &mark).await?;
    for _ in 0..2 {
        let released = stage.ips().release(ip, &mark).await;
        released.map_err(|refusal| format!("not released: {refusal:?}"))?;
        let found = stage.find(ip).await?;
        demand(found.is_none(), || format!("still there: {found:?}"))?;
    }
    Ok(())
}

async fn buys_no_more_than_the_quota(stage: &Stage<'_>) -> Checked {
    let v6 = stage.bought_families()?[0];
    let Some(full) = stage.scene.limit(true) else {
        return Err(cannot("this server has no quota that can be set"));
    };
    full.await?;
    let region = stage.scene.region();
    let before = stage.list().await?.len();
    let answer = stage.ips().buy(&region, v6, &stage.mark()).await;
    if let Some(open) = stage.scene.limit(false) {
        open.await?;
    }
    stage.expect_refusal(answer, &[Class::Quota])?;
    let after = stage.list().await?.len();
    demand(before == after, || {
        format!("{before} addresses before, {after} after")
    })
}

async fn says_that_an_address_is_busy(stage: &Stage<'_>) -> Checked {
    let (ip, server) = (stage.ip(), stage.server(0));
    let Some(occupy) = stage.scene.occupy(ip, true) else {
        return Err(cannot("addresses are never busy on this server"));
    };
    occupy.await?;
    let listed = stage.find(ip).await?;
    let answer = stage.ips().assign(ip, &server).await;
    if let Some(end) = stage.scene.occupy(ip, false) {
        end.await?;
    }
    demand(listed.as_ref().is_some_and(|listed| listed.busy), || {
        format!("it should be busy: {listed:?}")
    })?;
    stage.expect_refusal(answer, &[Class::Busy])?;
    stage.put(ip, &server).await?;
    stage.expect_on(ip, Some(&server)).await
}

async fn refuses_strangers_without_telling_the_secret(stage: &Stage<'_>) -> Checked {
    let Some((stranger, secret)) = stage.scene.stranger() else {
        return Err(cannot("this server lets everybody in"));
    };
    let listed = stranger.list().await.map(drop);
    let assigned = stranger.assign(stage.ip(), &stage.server(0)).await;
    for refused in [listed, assigned.map(drop)] {
        let Err(refusal) = refused else {
            return Err("a stranger was let in".to_owned().into());
        };
        demand(!format!("{refusal:?}").contains(&secret), || {
            "the secret stands in the refusal".to_owned()
        })?;
        demand(refusal.class == Class::Unauthorized, || {
            format!("{refusal:?} instead of Unauthorized")
        })?;
    }
    stage.expect_on(stage.ip(), None).await
}

async fn lets_an_address_go_on_when_its_server_is_gone(stage: &Stage<'_>) -> Checked {
    let (ip, server) = (stage.ip(), stage.last_server());
    let Some(vanish) = stage.scene.vanish(&server) else {
        return Err(cannot("servers cannot be removed here"));
    };
    stage.put(ip, &server).await?;
    vanish.await?;
    let answer = stage.ips().assign(stage.family()[1], &server).await;
    stage.expect_refusal(answer, &[Class::ServerUnknown])?;
    let other = stage.server(0);
    if !stage.capabilities().steals {
        stage.free(ip).await?;
    }
    stage.put(ip, &other).await?;
    stage.expect_on(ip, Some(&other)).await
}
