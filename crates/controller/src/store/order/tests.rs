use super::*;

fn stamp(uid: &str, version: u64) -> Stamp {
    Stamp::of(&ObjectMeta {
        uid: Some(uid.into()),
        resource_version: Some(version.to_string()),
        ..ObjectMeta::default()
    })
}

#[test]
fn an_older_state_is_ignored() {
    let mut order = Order::default();
    assert!(order.exists(&"a", &stamp("u", 99)));
    assert!(order.exists(&"a", &stamp("u", 105)), "an own write");
    assert!(!order.exists(&"a", &stamp("u", 103)), "overtaken");
    assert!(order.exists(&"a", &stamp("u", 105)), "the same again");
    assert!(
        order.exists(&"a", &stamp("u", 1_000)),
        "by number, not by letter"
    );
    assert!(order.exists(&"b", &stamp("v", 1)), "another object");
}

#[test]
fn a_version_that_is_no_number_is_believed() {
    let mut order = Order::default();
    let odd = Stamp::of(&ObjectMeta {
        resource_version: Some("odd".into()),
        ..ObjectMeta::default()
    });
    assert!(order.exists(&"a", &stamp("u", 5)));
    assert!(order.exists(&"a", &odd));
    assert!(order.exists(&"a", &stamp("u", 1)));
}

#[test]
fn an_old_deletion_does_not_undo_a_new_object() {
    let mut order = Order::default();
    assert!(order.exists(&"a", &stamp("new", 12)), "created again by us");
    assert!(!order.gone(&"a", &stamp("old", 11)));
    assert!(!order.exists(&"a", &stamp("old", 9)));
    assert!(order.gone(&"a", &stamp("new", 13)));
    assert!(!order.gone(&"a", &stamp("new", 13)), "not known any more");
}

#[test]
fn an_own_deletion_is_not_undone_by_what_the_watch_still_tells() {
    let mut order = Order::default();
    order.exists(&"a", &stamp("one", 10));
    assert!(order.deleted(&"a", stamp("one", 10)));
    assert!(!order.exists(&"a", &stamp("one", 10)));
    assert!(
        !order.exists(&"a", &stamp("one", 11)),
        "changed just before"
    );
    assert!(
        !order.exists(&"a", &stamp("zero", 8)),
        "an even older object"
    );
    assert!(!order.gone(&"a", &stamp("one", 12)), "known already");
    assert!(!order.exists(&"a", &stamp("one", 11)), "a late answer");
}

#[test]
fn an_answer_that_a_deletion_by_others_has_overtaken_brings_nothing_back() {
    let mut order = Order::default();
    order.exists(&"a", &stamp("one", 10));
    // Changed by this process to 11, and deleted by somebody else: the watch tells both
    // before the answer is there.
    order.exists(&"a", &stamp("one", 11));
    assert!(order.gone(&"a", &stamp("one", 12)));
    assert!(!order.exists(&"a", &stamp("one", 11)), "the late answer");
    // So also if it was created and deleted before its answer came.
    assert!(!order.gone(&"b", &stamp("two", 14)), "never heard of");
    assert!(!order.exists(&"b", &stamp("two", 13)), "the late answer");
    assert!(order.exists(&"b", &stamp("three", 15)), "the next object");
}

#[test]
fn an_own_deletion_that_the_watch_told_first_hides_nothing_new() {
    let mut order = Order::default();
    order.exists(&"a", &stamp("one", 10));
    assert!(order.gone(&"a", &stamp("one", 12)));
    assert!(!order.deleted(&"a", stamp("one", 10)));
    assert!(order.exists(&"a", &stamp("two", 13)), "taken again");
    assert!(!order.deleted(&"a", stamp("one", 10)));
    assert!(order.gone(&"a", &stamp("two", 14)));
}

#[test]
fn an_own_deletion_does_not_hide_the_next_object() {
    let mut order = Order::default();
    order.exists(&"a", &stamp("one", 10));
    order.deleted(&"a", stamp("one", 10));
    assert!(order.exists(&"a", &stamp("two", 13)));
    assert!(!order.gone(&"a", &stamp("one", 12)));
    assert!(!order.exists(&"a", &stamp("one", 10)));
}

#[test]
fn a_list_takes_away_what_is_not_in_it() {
    let mut order = Order::default();
    order.exists(&"listed", &stamp("u", 1));
    order.exists(&"lost", &stamp("v", 2));
    order.begin_list();
    order.exists(&"listed", &stamp("u", 1));
    order.exists(&"written", &stamp("w", 9));
    assert_eq!(order.end_list(), ["lost"]);
    assert_eq!(order.end_list(), [""; 0], "no list was asked for");
    assert!(order.gone(&"written", &stamp("w", 10)), "written meanwhile");
}

#[test]
fn what_was_deleted_during_a_list_stays_deleted() {
    let mut order = Order::default();
    order.begin_list();
    order.exists(&"a", &stamp("u", 1));
    assert!(order.deleted(&"a", stamp("u", 1)));
    order.exists(&"b", &stamp("v", 2));
    order.gone(&"b", &stamp("v", 3));
    assert_eq!(order.end_list(), [""; 0]);
    assert!(!order.exists(&"a", &stamp("u", 1)), "the watch catches up");

    order.begin_list();
    assert_eq!(order.end_list(), [""; 0]);
    assert!(
        order.exists(&"a", &stamp("u", 1)),
        "a list without it ends the memory"
    );
}

#[test]
fn a_list_after_a_restore_is_believed() {
    let mut order = Order::default();
    order.exists(&"changed", &stamp("u", 50));
    order.exists(&"lost", &stamp("v", 60));
    order.exists(&"back", &stamp("w", 70));
    assert!(order.deleted(&"back", stamp("w", 70)));
    order.begin_list();
    assert!(order.exists(&"changed", &stamp("u", 5)), "as it was once");
    assert!(
        order.exists(&"back", &stamp("w", 7)),
        "not deleted any more"
    );
    assert!(order.exists(&"changed", &stamp("u", 9)), "an own write");
    assert!(!order.exists(&"changed", &stamp("u", 8)), "overtaken");
    assert_eq!(order.end_list(), ["lost"]);
    assert!(
        order.exists(&"changed", &stamp("u", 10)),
        "the watch goes on"
    );
    assert!(!order.exists(&"changed", &stamp("u", 9)));
    assert!(order.gone(&"back", &stamp("w", 11)));
}
