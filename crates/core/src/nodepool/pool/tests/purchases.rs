//! Nothing is bought twice, and nothing that was bought is lost.

use super::desk::{A, B, Desk, Fault, addresses, ip, kind_of, listed};
use crate::nodepool::{cloud::Class, pool::State};

fn desk(marks: bool) -> Desk {
    Desk::new("").with(|it| {
        it.desired = 1;
        it.capabilities.marks = marks;
    })
}

#[test]
fn the_intent_is_written_before_anything_is_bought() {
    let mut desk = desk(true);
    desk.fail("Write", Class::Unavailable);
    desk.faults.push(("Write", Fault::Silent));
    desk.pass(600);
    assert_eq!(desk.count("Write"), 2);
    assert_eq!(desk.count("Buy"), 0, "nobody has said that it is written");
    let purchase = desk.pool.memory().purchase.clone().expect("an intent");
    assert!(purchase.before.is_empty());
    assert_eq!(purchase.mark.cluster, "cluster");
}

#[test]
fn as_many_are_bought_as_are_missing() {
    let mut desk = Desk::new(A).with(|it| it.desired = 3);
    assert_eq!(desk.view().unfulfilled, 2);
    desk.pass(5);
    assert_eq!(desk.spec.ips, addresses("192.168.1.1 10.0.1.1 10.0.2.2"));
    assert_eq!(desk.view().unfulfilled, 0);
    let order: Vec<_> = desk.calls.iter().map(kind_of).collect();
    let order: Vec<_> = order.into_iter().filter(|it| *it != "List").collect();
    assert_eq!(order, ["Write", "Buy", "Enter", "Write", "Buy", "Enter"]);
    desk.pass(1000);
    assert_eq!(desk.count("Buy"), 2);
}

#[test]
fn a_refused_purchase_is_shown_and_tried_again() {
    let mut desk = desk(true);
    desk.fail("Buy", Class::Quota);
    desk.run();
    let error = desk.view().error.expect("an error");
    assert_eq!(error.message, "creating new ip with provider: no");
    assert_eq!(error.reason, "QuotaExceeded");
    assert_eq!(desk.pool.memory().purchase, None, "nothing was done");
    desk.pass(59);
    assert_eq!(desk.count("Buy"), 1);
    desk.pass(5);
    assert_eq!(desk.spec.ips, addresses("10.0.1.1"));
    assert_eq!(desk.view().error, None);
}

#[test]
fn what_is_there_is_used_while_more_cannot_be_bought() {
    let mut desk = Desk::new("").with(|it| it.desired = 2);
    desk.nodes(&[("x", None), ("y", None)]);
    desk.run();
    assert_eq!(desk.count("Assign"), 2);

    let mut desk = Desk::new("").with(|it| it.desired = 2);
    desk.nodes(&[("x", None)]);
    // The first one is bought, the second one not.
    desk.shop.truncate(1);
    desk.run_until_sold_out();
    assert_eq!(desk.state("10.0.1.1"), State::Active);
    assert_eq!(desk.view().unfulfilled, 1);
}

#[test]
fn an_entry_that_fails_is_tried_again_and_nothing_else_is_bought() {
    let mut desk = desk(true);
    for _ in 0..5 {
        desk.fail("Enter", Class::Unavailable);
    }
    desk.pass(600);
    assert_eq!(desk.count("Buy"), 1);
    assert_eq!(desk.count("Enter"), 6);
    assert_eq!(desk.spec.ips, addresses("10.0.1.1"));
}

#[test]
fn an_old_specification_after_the_entry_buys_nothing() {
    let mut desk = desk(true);
    desk.pass(2);
    let mut old = desk.spec.clone();
    old.ips.clear();
    desk.pool.configure(old, desk.now);
    desk.pass(100);
    assert_eq!(desk.count("Buy"), 1);
    // But when somebody has taken it out, another one is bought in the end.
    desk.configure(|_| {});
    desk.configure(|it| it.ips.clear());
    desk.pass(100);
    assert_eq!(desk.count("Buy"), 2);
}

#[test]
fn without_an_answer_the_mark_tells() {
    for (fault, count) in [(Fault::DoneUnheard, 1), (Fault::Lost, 2)] {
        let mut desk = desk(true);
        desk.faults.push(("Buy", fault));
        desk.pass(60);
        assert_eq!(desk.count("Buy"), count);
        assert_eq!(desk.spec.ips, addresses("10.0.1.1"));
        assert_eq!(desk.view().error, None);
        assert_eq!(desk.pool.memory().purchase, None);
    }
}

#[test]
fn after_a_crash_the_mark_tells() {
    // At each of the calls, done or not.
    for (call, fault, count) in [
        ("Write", Fault::Silent, 1),
        ("Write", Fault::DoneSilent, 1),
        ("Buy", Fault::DoneSilent, 1),
        ("Buy", Fault::Silent, 2),
        ("Enter", Fault::DoneSilent, 1),
        ("Enter", Fault::Silent, 1),
    ] {
        let mut desk = desk(true);
        desk.faults.push((call, fault.clone()));
        desk.run();
        let memory = desk.pool.memory().clone();
        assert!(memory.purchase.is_some(), "{call} {fault:?}");
        desk.restart(memory);
        desk.pass(60);
        assert_eq!(desk.count("Buy"), count, "{call} {fault:?}");
        assert_eq!(desk.spec.ips, addresses("10.0.1.1"), "{call} {fault:?}");
        assert_eq!(desk.pool.memory().purchase, None);
    }
}

#[test]
fn without_marks_nothing_new_means_that_nothing_was_bought() {
    let mut desk = desk(false);
    desk.cloud.insert(ip(A), listed(ip(A), None));
    desk.faults.push(("Buy", Fault::Silent));
    desk.run();
    let memory = desk.pool.memory().clone();
    desk.restart(memory);
    desk.run();
    assert_eq!(desk.count("Buy"), 1, "one list is not enough");
    desk.pass(60);
    assert_eq!(desk.count("Buy"), 2);
    assert_eq!(desk.spec.ips, addresses("10.0.1.1"));
}

#[test]
fn without_marks_something_new_is_left_to_a_person() {
    let mut desk = desk(false);
    desk.faults.push(("Buy", Fault::DoneSilent));
    desk.run();
    let memory = desk.pool.memory().clone();
    desk.restart(memory);
    desk.pass(600);
    assert_eq!(desk.count("Buy"), 1);
    let error = desk.view().error.expect("an error");
    assert_eq!(error.reason, "PurchaseUnclear");
    assert!(error.message.contains("10.0.1.1"), "{}", error.message);
    // Whoever enters it ends the matter,
    let mut entered = desk;
    entered.configure(|it| it.ips = addresses("10.0.1.1"));
    entered.pass(100);
    assert_eq!(entered.view().error, None);
    assert_eq!(entered.pool.memory().purchase, None);
    assert_eq!(entered.count("Buy"), 1);
    // and so does whoever gives it back.
    let mut desk = self::desk(false);
    desk.faults.push(("Buy", Fault::DoneUnheard));
    desk.pass(100);
    assert_eq!(desk.count("Buy"), 1);
    desk.cloud.clear();
    desk.pass(200);
    assert_eq!(desk.count("Buy"), 2);
    assert_eq!(desk.spec.ips, addresses("10.0.2.2"));
}

#[test]
fn without_marks_what_is_new_and_on_a_server_was_bought_by_others() {
    let mut desk = desk(false);
    desk.faults.push(("Buy", Fault::Silent));
    desk.run();
    let memory = desk.pool.memory().clone();
    let mut others = listed(ip(B), None);
    others.server = Some("fake://elsewhere".into());
    desk.cloud.insert(ip(B), others);
    desk.restart(memory);
    desk.pass(100);
    assert_eq!(desk.view().error, None);
    assert_eq!(desk.count("Buy"), 2);
    assert_eq!(desk.spec.ips, addresses("10.0.1.1"));
}

#[test]
fn a_purchase_that_nobody_wants_any_more_is_not_made() {
    let mut desk = desk(true);
    desk.fail("Write", Class::Unavailable);
    desk.run();
    desk.configure(|it| {
        it.desired = 0;
        it.ips = addresses(A);
    });
    desk.pass(600);
    assert_eq!(desk.count("Buy"), 0);
    assert_eq!(desk.pool.memory().purchase, None);
    assert_eq!(desk.view().error, None);
}

#[test]
fn who_sells_nothing_is_not_asked() {
    let mut desk = desk(true).with(|it| it.capabilities.buys = false);
    desk.pass(100);
    assert_eq!(desk.count("Write") + desk.count("Buy"), 0);
    let error = desk.view().error.expect("an error");
    assert!(error.message.starts_with("creating new ip with provider: "));
}

impl Desk {
    /// The shop has one address; the second purchase is refused.
    fn run_until_sold_out(&mut self) {
        while self.count("Buy") == 0 {
            for call in self.pool.poll(self.now) {
                self.answer_one(&call);
            }
        }
        self.fail("Buy", Class::Quota);
        self.pass(5);
    }
}
