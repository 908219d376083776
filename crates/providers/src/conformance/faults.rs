//! The suites again, while the way to the server fails: what the client makes of it, that
//! the state can be read afterwards, and that the same order then succeeds.

use std::time::Duration;

use floe_core::nodepool::cloud::{Class, Refusal};

use super::{
    ips::{Scene, Stage},
    names::{Desk, Zones},
    proxy::{Fault, On, Proxy},
    report::{Checked, Report, cannot, demand},
};

/// A fault on the way of an order, and what it may be taken for.
struct Case {
    fault: Fault,
    class: Class,
    /// The time that was asked for, in seconds.
    wait: Option<u64>,
}

const fn case(fault: Fault, class: Class) -> Case {
    Case {
        fault,
        class,
        wait: None,
    }
}

/// What orders can meet. Whoever may have been heard is unclear, whatever was done.
const ORDERS: [Case; 8] = [
    case(Fault::DoneThenClosed, Class::Unclear),
    case(Fault::ResetBefore, Class::Unclear),
    case(Fault::Status(500, None), Class::Unclear),
    case(Fault::Status(502, None), Class::Unclear),
    case(Fault::Status(504, None), Class::Unclear),
    case(Fault::Status(503, None), Class::Unavailable),
    Case {
        fault: Fault::Status(503, Some(3)),
        class: Class::Unavailable,
        wait: Some(3),
    },
    Case {
        fault: Fault::Status(429, Some(7)),
        class: Class::RateLimited,
        wait: Some(7),
    },
];

/// What questions can meet: nothing was done in any case.
const QUESTIONS: [Case; 7] = [
    case(Fault::DoneThenClosed, Class::Unavailable),
    case(Fault::ResetBefore, Class::Unavailable),
    case(Fault::Status(500, None), Class::Unavailable),
    case(Fault::Status(502, None), Class::Unavailable),
    case(Fault::Malformed, Class::Unavailable),
    case(Fault::Status(401, None), Class::Unauthorized),
    Case {
        fault: Fault::Status(429, Some(7)),
        class: Class::RateLimited,
        wait: Some(7),
    },
];

/// What every cloud passes on a bad way.
pub async fn every_cloud(scene: &dyn Scene) -> Report {
    let mut report = Report::new(format!("{}, on a bad way", scene.title()));
    let stage = Stage::new(scene);
    super::ips::checks!(
        report,
        stage,
        [
            lists_fail_for_what_they_met,
            a_slow_answer_is_an_answer,
            assignments_fail_for_what_they_met_and_succeed_again,
            an_assignment_without_an_answer_is_unclear,
            an_assignment_with_half_an_answer_is_unclear_or_done,
            a_detachment_without_an_answer_is_repeated,
            a_purchase_without_an_answer_is_found_by_its_mark,
            a_purchase_that_was_refused_bought_nothing,
            a_release_without_an_answer_is_repeated,
            nobody_listens,
        ]
    );
    report.add("leaves_addresses_on_no_server", stage.clear().await);
    report
}

/// What every name server passes on a bad way.
pub async fn every_name_server(zones: &dyn Zones) -> Report {
    let mut report = Report::new(format!("{}, on a bad way", zones.title()));
    super::names::checks!(
        report,
        zones,
        [
            reads_fail_for_what_they_met,
            records_fail_for_what_they_met_and_are_written_again,
            records_without_an_answer_are_written_again,
            a_removal_without_an_answer_is_repeated,
        ]
    );
    report
}

/// Fails unless the refusal is the one of that case, and its fault was met.
fn expect<T: std::fmt::Debug>(proxy: &Proxy, case: &Case, answer: Result<T, Refusal>) -> Checked {
    let unmet = proxy.unmet();
    demand(unmet.is_empty(), || format!("nobody met {unmet:?}"))?;
    let refusal = match answer {
        Ok(answer) => return Err(format!("{:?}: {answer:?}", case.fault).into()),
        Err(refusal) => refusal,
    };
    demand(refusal.class == case.class, || {
        format!("{:?}: {refusal:?} instead of {:?}", case.fault, case.class)
    })?;
    let wait = case.wait.map(Duration::from_secs);
    demand(refusal.retry_after == wait, || {
        format!("{:?}: {refusal:?} has not asked for {wait:?}", case.fault)
    })
}

async fn lists_fail_for_what_they_met(stage: &Stage<'_>) -> Checked {
    let proxy = stage.scene.proxy();
    for case in &QUESTIONS {
        proxy.fail_next(On::Reads, case.fault.clone());
        expect(proxy, case, stage.ips().list().await)?;
        stage.list().await?;
    }
    Ok(())
}

async fn a_slow_answer_is_an_answer(stage: &Stage<'_>) -> Checked {
    let proxy = stage.scene.proxy();
    let slow = Fault::Slow(Duration::from_millis(700));
    proxy.fail_next(On::Reads, slow.clone());
    stage.list().await?;
    proxy.fail_next(On::Writes, slow);
    stage.put(stage.ip(), &stage.server(0)).await?;
    stage.expect_on(stage.ip(), Some(&stage.server(0))).await
}

async fn assignments_fail_for_what_they_met_and_succeed_again(stage: &Stage<'_>) -> Checked {
    let proxy = stage.scene.proxy();
    let (ip, server) = (stage.ip(), stage.server(0));
    for case in &ORDERS {
        stage.free(ip).await?;
        proxy.fail_next(On::Writes, case.fault.clone());
        expect(proxy, case, stage.ips().assign(ip, &server).await)?;
        // What was begun comes to its end; then the list tells whether it was.
        stage.scene.settle().await?;
        let done = case.fault == Fault::DoneThenClosed;
        stage.expect_on(ip, done.then_some(&server)).await?;
        stage.put(ip, &server).await?;
        stage.expect_on(ip, Some(&server)).await?;
    }
    Ok(())
}

async fn an_assignment_without_an_answer_is_unclear(stage: &Stage<'_>) -> Checked {
    let proxy = stage.scene.proxy();
    let (ip, server) = (stage.ip(), stage.server(0));
    let case = case(Fault::DoneThenSilent, Class::Unclear);
    proxy.fail_next(On::Writes, case.fault.clone());
    expect(proxy, &case, stage.ips().assign(ip, &server).await)?;
    stage.scene.settle().await?;
    stage.expect_on(ip, Some(&server)).await?;
    stage.put(ip, &server).await?;
    stage.expect_on(ip, Some(&server)).await
}

async fn an_assignment_with_half_an_answer_is_unclear_or_done(stage: &Stage<'_>) -> Checked {
    let proxy = stage.scene.proxy();
    let (ip, server) = (stage.ip(), stage.server(0));
    proxy.fail_next(On::Writes, Fault::Malformed);
    match stage.ips().assign(ip, &server).await {
        Ok(taken) => stage.end(ip, taken).await?,
        refused @ Err(_) => expect(proxy, &case(Fault::Malformed, Class::Unclear), refused)?,
    }
    stage.scene.settle().await?;
    stage.expect_on(ip, Some(&server)).await?;
    stage.put(ip, &server).await
}

async fn a_detachment_without_an_answer_is_repeated(stage: &Stage<'_>) -> Checked {
    let proxy = stage.scene.proxy();
    let (ip, server) = (stage.ip(), stage.server(0));
    for case in &ORDERS {
        stage.put(ip, &server).await?;
        proxy.fail_next(On::Writes, case.fault.clone());
        expect(proxy, case, stage.ips().detach(ip).await)?;
        stage.scene.settle().await?;
        let done = case.fault == Fault::DoneThenClosed;
        stage.expect_on(ip, (!done).then_some(&server)).await?;
        stage.free(ip).await?;
        stage.expect_on(ip, None).await?;
    }
    Ok(())
}

async fn a_purchase_without_an_answer_is_found_by_its_mark(stage: &Stage<'_>) -> Checked {
    stage.needs_marks()?;
    let proxy = stage.scene.proxy();
    for v6 in stage.bought_families()? {
        // Some clouds need more than one call: each of them may be the one.
        for nth in 0..stage.scene.calls_to_buy() {
            let mark = stage.mark();
            for _ in 0..nth {
                proxy.fail_next(On::Writes, Fault::Slow(Duration::ZERO));
            }
            let case = case(Fault::DoneThenClosed, Class::Unclear);
            proxy.fail_next(On::Writes, case.fault.clone());
            let region = stage.scene.region();
            let answer = stage.ips().buy(&region, v6, &mark).await;
            expect(proxy, &case, answer)?;
            let listed = stage.list().await?;
            let marked: Vec<_> = listed
                .iter()
                .filter(|listed| listed.mark.as_ref() == Some(&mark))
                .collect();
            let last = nth + 1 == stage.scene.calls_to_buy();
            demand(marked.len() == usize::from(last), || {
                format!("after call {nth}, of {mark:?}: {marked:?}")
            })?;
            match marked.first() {
                Some(listed) => stage.remember(listed.ip, &mark),
                // Nothing was bought, so it is bought again under the same mark.
                None => drop(stage.buy(v6, &mark).await?),
            }
        }
    }
    Ok(())
}

async fn a_purchase_that_was_refused_bought_nothing(stage: &Stage<'_>) -> Checked {
    let v6 = stage.bought_families()?[0];
    let proxy = stage.scene.proxy();
    let before = stage.list().await?.len();
    let region = stage.scene.region();
    for case in ORDERS
        .iter()
        .filter(|case| case.fault != Fault::DoneThenClosed)
    {
        proxy.fail_next(On::Writes, case.fault.clone());
        let answer = stage.ips().buy(&region, v6, &stage.mark()).await;
        expect(proxy, case, answer)?;
    }
    let after = stage.list().await?.len();
    demand(before == after, || {
        format!("{before} addresses before, {after} after")
    })
}

async fn a_release_without_an_answer_is_repeated(stage: &Stage<'_>) -> Checked {
    stage.needs_marks()?;
    let v6 = stage.bought_families()?[0];
    let proxy = stage.scene.proxy();
    for case in &ORDERS {
        let mark = stage.mark();
        let ip = stage.buy(v6, &mark).await?;
        proxy.fail_next(On::Writes, case.fault.clone());
        expect(proxy, case, stage.ips().release(ip, &mark).await)?;
        let there = stage.find(ip).await?.is_some();
        demand(there != (case.fault == Fault::DoneThenClosed), || {
            format!("{:?}: there is it {there}", case.fault)
        })?;
        let again = stage.ips().release(ip, &mark).await;
        again.map_err(|refusal| format!("not released: {refusal:?}"))?;
        let found = stage.find(ip).await?;
        demand(found.is_none(), || format!("still there: {found:?}"))?;
    }
    Ok(())
}

async fn nobody_listens(stage: &Stage<'_>) -> Checked {
    let proxy = stage.scene.proxy();
    let (ip, server) = (stage.ip(), stage.server(0));
    proxy.go_away().await;
    let listed = stage.ips().list().await;
    let assigned = stage.ips().assign(ip, &server).await;
    let back = proxy.come_back().await;
    back.map_err(|error| format!("the proxy does not come back: {error}"))?;
    stage.expect_refusal(listed, &[Class::Unavailable])?;
    // Nobody was reached, so it is clear that nothing was done.
    stage.expect_refusal(assigned, &[Class::Unavailable])?;
    stage.expect_on(ip, None).await?;
    stage.put(ip, &server).await?;
    stage.expect_on(ip, Some(&server)).await
}

/// The way to a name server, if it can be made bad.
fn way<'a>(desk: &Desk<'a>) -> Result<&'a Proxy, super::report::Miss> {
    let none = || cannot("its way is not HTTP, and the proxy knows no other");
    desk.zones.proxy().ok_or_else(none)
}

async fn reads_fail_for_what_they_met(desk: &Desk<'_>) -> Checked {
    let proxy = way(desk)?;
    desk.ensure("us", &["192.0.2.1"]).await?;
    let (zone, name) = (desk.zones.zone(), desk.zones.name(&desk.label));
    for case in &QUESTIONS {
        proxy.fail_next(On::Reads, case.fault.clone());
        expect(proxy, case, desk.zones.dns().read(&zone, &name).await)?;
        desk.expect_found(Some("us"), &["192.0.2.1"]).await?;
    }
    Ok(())
}

async fn records_fail_for_what_they_met_and_are_written_again(desk: &Desk<'_>) -> Checked {
    let proxy = way(desk)?;
    let (old, new) = (["192.0.2.1"], ["192.0.2.2", "2001:db8::1"]);
    for case in &ORDERS {
        desk.ensure("us", &old).await?;
        let wanted = desk.wanted("us", &new)?;
        proxy.fail_next(On::Writes, case.fault.clone());
        expect(proxy, case, desk.zones.dns().ensure(&wanted).await)?;
        desk.ensure("us", &new).await?;
        desk.expect(&new).await?;
        desk.expect_found(Some("us"), &new).await?;
    }
    Ok(())
}

async fn records_without_an_answer_are_written_again(desk: &Desk<'_>) -> Checked {
    let proxy = way(desk)?;
    // The first write of all, that of the note included.
    for fault in [Fault::DoneThenClosed, Fault::DoneThenSilent] {
        let case = case(fault, Class::Unclear);
        let wanted = desk.wanted("us", &["192.0.2.1", "192.0.2.2"])?;
        proxy.fail_next(On::Writes, case.fault.clone());
        expect(proxy, &case, desk.zones.dns().ensure(&wanted).await)?;
        desk.ensure("us", &["192.0.2.1", "192.0.2.2"]).await?;
        desk.expect(&["192.0.2.1", "192.0.2.2"]).await?;
        desk.remove("us").await?;
    }
    Ok(())
}

async fn a_removal_without_an_answer_is_repeated(desk: &Desk<'_>) -> Checked {
    let proxy = way(desk)?;
    for case in &ORDERS {
        desk.ensure("us", &["192.0.2.1", "2001:db8::1"]).await?;
        proxy.fail_next(On::Writes, case.fault.clone());
        expect(proxy, case, desk.try_remove("us").await)?;
        desk.remove("us").await?;
        desk.expect_found(None, &[]).await?;
    }
    Ok(())
}
