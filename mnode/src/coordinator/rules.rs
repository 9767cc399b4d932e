//! One test for each of the rules of tmq.md section 16 that the coordinator has to keep, by their numbers, and for the
//! timers of 7.1 and the field cases of rebalancing. Virtual time: a tick is a call.

use model::{Code, ConsumerId, Epoch, Version, VgroupId};

use super::world::World;
use super::{Heartbeat, OwnerCommit, PlaceReport};
use crate::spec::{ConsumerParameters, Grant, OffsetReset, TopicKind, TopicMeta, TopicSpec};
use crate::state::{Command, ConsumerState, Event, GROUPS_MAX, GroupKey, Place, Rebalance, ReportedOffset};

fn code<T>(result: model::Result<T>) -> Option<Code> {
    result.err().map(|e| e.code())
}

fn counts(world: &World, ids: &[u64]) -> Vec<usize> {
    ids.iter().map(|id| world.count(*id, "t")).collect()
}

fn joined(vgroups: u32, ids: &[u64]) -> World {
    let mut world = World::new(vgroups);
    for id in ids {
        world.subscribe(*id, &["t"]).unwrap();
        world.drive();
    }
    world
}

#[test]
fn four_vgroups_over_one_to_five_consumers_and_back() {
    let mut world = World::new(4);
    for (id, want) in
        [(1, vec![4]), (2, vec![2, 2]), (3, vec![2, 1, 1]), (4, vec![1; 4]), (5, vec![1, 1, 1, 1, 0])]
    {
        world.subscribe(id, &["t"]).unwrap();
        world.drive();
        assert_eq!(counts(&world, &(1..=id).collect::<Vec<_>>()), want, "at once, without a tick");
    }
    let calls = world.owner_calls;
    world.subscribe(5, &[]).unwrap();
    world.drive();
    assert_eq!(world.owner_calls, calls, "the idle one leaves: nothing moves");
}

#[test]
fn rule_01_subscribe_resets_both_counters() {
    let mut world = joined(2, &[1]);
    for _ in 0..5 {
        world.tick();
    }
    world.subscribe(1, &["t"]).unwrap();
    for _ in 0..5 {
        world.tick();
    }
    assert!(world.state.consumer(ConsumerId(1)).is_ok(), "10 s after its subscribe");
    world.tick();
    assert_eq!(code(world.heartbeat(1, true)), Some(Code::ConsumerNotExist));
    // Listed until the next tick; meanwhile it comes back, and that tick must not delete or expire it.
    world.subscribe(1, &["t"]).unwrap();
    world.drive();
    world.tick();
    world.tick();
    assert_eq!(counts(&world, &[1]), [2]);
}

#[test]
fn rule_01_resubscribe_races_with_the_tick_that_expires() {
    let mut world = joined(2, &[1]);
    for _ in 0..5 {
        world.tick();
    }
    // The tick decides, the subscribe is applied first.
    let expire = world.coordinator.tick(&world.state);
    world.subscribe(1, &["t"]).unwrap();
    for command in expire {
        world.run(command).unwrap();
    }
    world.drive();
    assert!(world.state.consumer(ConsumerId(1)).is_ok());
    assert_eq!(counts(&world, &[1]), [2]);
}

#[test]
fn rule_02_a_removal_of_someone_not_listed_completes() {
    let mut world = joined(2, &[1]);
    // Unsubscribes before the group has ever listed it.
    world.subscribe(2, &["t"]).unwrap();
    world.subscribe(2, &[]).unwrap();
    world.drive();
    assert_eq!(world.state.consumer(ConsumerId(2)).unwrap().state(), ConsumerState::Ready);
    // A member is deleted as a whole while the group lists it.
    world.topic("other", "d").unwrap();
    world.subscribe(3, &["other", "t"]).unwrap();
    world.drive();
    world.drop_topic("other", true).unwrap();
    world.drive();
    assert_eq!(counts(&world, &[1]), [2]);
    assert_eq!(world.group("t").members.len(), 1);
    let epoch = world.group("t").epoch;
    for _ in 0..3 {
        world.tick_with(&[1]);
    }
    assert_eq!(world.group("t").epoch, epoch, "no phantom is removed again and again");
}

#[test]
fn rule_02_a_deleted_member_that_comes_back_under_its_id_gets_ready() {
    let mut world = joined(2, &[1]);
    world.topic("other", "d").unwrap();
    world.subscribe(2, &["other", "t"]).unwrap();
    world.drive();
    world.drop_topic("other", true).unwrap();
    // Before any rebalance: members are the same again, the consumer's own record is new.
    world.subscribe(2, &["t"]).unwrap();
    world.drive();
    assert_eq!(world.state.consumer(ConsumerId(2)).unwrap().state(), ConsumerState::Ready);
    assert_eq!(counts(&world, &[1, 2]), [1, 1]);
}

#[test]
fn rule_03_shares_rest_on_members_that_are_there() {
    let mut world = joined(4, &[1, 2]);
    world.subscribe(2, &[]).unwrap();
    world.plan();
    // Planned for one member; before it is in force, another joins and the first leaves.
    world.subscribe(3, &["t"]).unwrap();
    world.subscribe(1, &[]).unwrap();
    world.drive();
    assert_eq!(counts(&world, &[3]), [4]);
    // A rebalance that counts somebody who is not there is refused.
    let key = world.key("g", "t");
    let stale = Rebalance {
        from_epoch: world.group("t").epoch,
        members: [ConsumerId(1), ConsumerId(3)].into(),
        next: world.group("t").assignment(),
        key,
    };
    assert_eq!(code(world.run(Command::Rebalance(stale))), Some(Code::Conflict));
}

#[test]
fn rule_04_a_pass_that_fails_midway_releases_its_guard() {
    let mut world = joined(4, &[1]);
    world.broken.insert(VgroupId(4));
    world.subscribe(2, &["t"]).unwrap();
    world.drive();
    assert!(world.group("t").pending.is_none());
    let owned: usize = counts(&world, &[1, 2]).iter().sum();
    assert!(owned >= 3, "the others are not held back: {:?}", world.group("t").owners);
    world.broken.clear();
    for _ in 0..4 {
        world.tick_with(&[1, 2]);
    }
    assert_eq!(counts(&world, &[1, 2]), [2, 2]);
}

#[test]
fn rule_04_a_server_crash_in_the_middle_is_resumed() {
    for told in 0..3 {
        let mut world = joined(4, &[1]);
        world.subscribe(2, &["t"]).unwrap();
        world.owner_budget = Some(told);
        world.drive();
        world.restart();
        world.drive();
        assert_eq!(counts(&world, &[1, 2]), [2, 2], "after {told} of 2 owners");
        world.check_fences(&world.key("g", "t"));
        assert!(world.state.consumers().all(|c| c.state() == ConsumerState::Ready));
    }
}

#[test]
fn rule_05_an_assignment_lists_every_vgroup() {
    let world = joined(7, &[1, 2, 3]);
    let group = world.group("t");
    let listed: usize = [1, 2, 3].map(|id| group.owned_by(ConsumerId(id)).count()).iter().sum();
    assert_eq!(listed, 7);
    assert_eq!(counts(&world, &[1, 2, 3]), [3, 2, 2]);
}

#[test]
fn rule_06_the_old_owner_is_fenced_before_the_new_one_learns() {
    let mut world = joined(2, &[1]);
    let key = world.key("g", "t");
    let before: Vec<_> = world.group("t").owned_by(ConsumerId(1)).collect();
    world.subscribe(2, &["t"]).unwrap();
    world.plan();
    let changes = world.state.owner_changes(&key);
    assert_eq!(changes.len(), 1, "one of two moves");
    let (moved, change) = &changes[0];
    world.set_owner(*moved, change).unwrap();
    let token = before.iter().find(|(v, _)| v == moved).unwrap().1;
    assert!(!world.accepts(*moved, &key, ConsumerId(1), token), "the zombie can neither read nor commit");
    assert_eq!(world.group("t").owned_by(ConsumerId(2)).count(), 0, "the new owner does not know yet");
    world.drive();
    let (vgroup, token) = world.group("t").owned_by(ConsumerId(2)).next().unwrap();
    assert!(world.accepts(vgroup, &key, ConsumerId(2), token));
    // What stays keeps its token: its consumer is not disturbed.
    let kept = world.group("t").owned_by(ConsumerId(1)).next().unwrap();
    assert!(before.contains(&kept));
    assert!(world.accepts(kept.0, &key, ConsumerId(1), kept.1));
}

#[test]
fn rule_06_a_consumer_that_gets_a_vgroup_back_has_a_new_token() {
    let mut world = joined(1, &[1]);
    let first = world.group("t").owned_by(ConsumerId(1)).next().unwrap();
    world.subscribe(1, &[]).unwrap();
    world.drive();
    assert!(
        !world.accepts(first.0, &world.key("g", "t"), ConsumerId(1), first.1),
        "the pool has a fence too"
    );
    world.subscribe(1, &["t"]).unwrap();
    world.drive();
    let again = world.group("t").owned_by(ConsumerId(1)).next().unwrap();
    assert!(again.1 > first.1, "a commit of the first time that was under way is refused");
}

#[test]
fn rule_15_unsubscribe_never_has_to_wait_and_always_succeeds() {
    let mut world = joined(2, &[1]);
    world.subscribe(2, &["t"]).unwrap();
    world.subscribe(2, &[]).unwrap();
    world.subscribe(2, &[]).unwrap();
    world.drive();
    world.tick_with(&[1]);
    assert_eq!(code(world.heartbeat(2, true)), Some(Code::ConsumerNotExist), "deleted at the next tick");
    world.subscribe(2, &[]).unwrap();
    world.subscribe(77, &[]).unwrap();
}

#[test]
fn rule_16_the_same_set_again_changes_nothing() {
    let mut world = joined(4, &[1, 2]);
    let (epoch, calls) = (world.group("t").epoch, world.owner_calls);
    world.subscribe(1, &["t", "t"]).unwrap();
    assert_eq!(world.state.consumer(ConsumerId(1)).unwrap().state(), ConsumerState::Ready);
    world.drive();
    assert_eq!((world.group("t").epoch, world.owner_calls), (epoch, calls));
}

#[test]
fn rule_17_force_drop_leaves_the_consumers_of_other_topics_alone() {
    let mut world = joined(2, &[1]);
    world.topic("other", "d").unwrap();
    world.subscribe(2, &["other"]).unwrap();
    world.subscribe(3, &["other", "t"]).unwrap();
    world.drive();
    assert_eq!(counts(&world, &[1, 3]), [1, 1]);
    assert_eq!(code(world.drop_topic("t", false)), Some(Code::TopicInUse));
    let epoch = world.group("other").epoch;
    world.drop_topic("t", true).unwrap();
    assert_eq!(code(world.heartbeat(1, true)), Some(Code::ConsumerNotExist));
    assert_eq!(code(world.heartbeat(3, true)), Some(Code::ConsumerNotExist), "deleted as a whole");
    world.heartbeat(2, true).unwrap();
    world.drive();
    assert_eq!(world.count(2, "other"), 2, "the vgroups of the deleted one go back");
    assert!(world.group("other").epoch > epoch);
}

#[test]
fn rule_18_drop_works_after_a_vgroup_vanished() {
    let mut world = joined(3, &[1]);
    world.state.remove_vgroup_for_test("d", VgroupId(2));
    world.tick_with(&[1]);
    assert_eq!(counts(&world, &[1]), [2], "forgotten");
    world.subscribe(1, &[]).unwrap();
    world.drive();
    world.drop_group("g", "t", false).unwrap();
    world.drop_topic("t", false).unwrap();
    assert_eq!(world.state.groups().count(), 0);
}

#[test]
fn rule_24_a_consumer_without_vgroups_stays_a_member() {
    let mut world = joined(1, &[1, 2]);
    assert_eq!(counts(&world, &[1, 2]), [1, 0]);
    for _ in 0..200 {
        world.tick_with(&[1, 2]);
    }
    assert_eq!(world.group("t").members.len(), 2);
    world.subscribe(1, &[]).unwrap();
    world.drive();
    assert_eq!(counts(&world, &[2]), [1]);
}

#[test]
fn rule_25_an_existing_group_ignores_the_limit_and_outlives_its_members() {
    let mut world = World::new(1);
    for n in 0..GROUPS_MAX {
        world.subscribe_as(World::spec(n as u64, &format!("g{n}")), &["t"]).unwrap();
    }
    assert_eq!(code(world.subscribe_as(World::spec(500, "one more"), &["t"])), Some(Code::GroupLimit));
    world.subscribe_as(World::spec(501, "g7"), &["t"]).unwrap();
    world.drive();
    for id in [7, 501] {
        world.subscribe_as(World::spec(id, "g7"), &[]).unwrap();
    }
    world.drive();
    world.tick();
    assert!(world.state.group(&world.key("g7", "t")).is_some());
    world.subscribe_as(World::spec(502, "g7"), &["t"]).unwrap();
}

#[test]
fn rule_26_subscribing_does_not_conflict_with_ddl() {
    let mut world = World::new(2);
    let spec = TopicSpec {
        name: "later".into(),
        if_not_exists: false,
        database: "d".into(),
        kind: TopicKind::Database,
        meta: TopicMeta::With,
        sql: String::new(),
        schema_json: None,
        definition: String::new(),
    };
    let create = Command::CreateTopic { by: "root".into(), spec };
    world.run(create.clone()).unwrap();
    assert!(world.state.intents().next().is_some(), "under way");
    world.subscribe(1, &["t"]).unwrap();
    world.plan();
    world.switch(&world.key("g", "t")).unwrap();
    assert_eq!(counts(&world, &[1]), [2]);
    // Statements on one database do conflict, with a code that says: try again.
    let refused = world.run(create).unwrap_err();
    assert_eq!(refused.code(), Code::Conflict);
    assert!(refused.may_retry());
}

fn report(world: &mut World, id: u64, vgroup: VgroupId, offset: u64, end: u64, rows: u64) {
    let key = world.key("g", "t");
    let epoch = world.group("t").owners[&vgroup].epoch;
    let place = Place { offset: ReportedOffset::Log(offset), end };
    let places = vec![PlaceReport { topic: key.topic, vgroup, epoch, place, rows }];
    let heartbeat = Heartbeat { consumer: ConsumerId(id), polled: true, places };
    world.coordinator.heartbeat(&world.state, &heartbeat, 0).unwrap();
}

#[test]
fn rule_27_position_and_end_are_one_pair_and_rows_are_summed_on_owner_change() {
    let mut world = joined(1, &[1]);
    let (key, vgroup) = (world.key("g", "t"), VgroupId(2));
    let progress = |w: &World| w.coordinator.progress(w.group("t"), &key, vgroup);
    assert_eq!(progress(&world).place, None, "NULL before the first heartbeat");
    report(&mut world, 1, vgroup, 105, 106, 70);
    assert_eq!(progress(&world).rows, 70);
    report(&mut world, 1, vgroup, 110, 106, 60);
    let shown = progress(&world);
    assert_eq!(
        shown.place,
        Some(Place { offset: ReportedOffset::Log(110), end: 110 }),
        "never beyond the end"
    );
    assert_eq!(shown.rows, 70, "an older heartbeat that came late does not take rows back");
    world.subscribe(1, &[]).unwrap();
    world.drive();
    assert_eq!(progress(&world).rows, 70, "kept without members");
    assert_eq!(progress(&world).place, shown.place);
    world.restart();
    assert_eq!(progress(&world).rows, 70, "and through a restart");
    world.subscribe(2, &["t"]).unwrap();
    world.drive();
    report(&mut world, 2, vgroup, 115, 120, 5);
    assert_eq!(progress(&world).rows, 75);
    // A former owner's late report is nobody's.
    let late = PlaceReport {
        topic: key.topic,
        vgroup,
        epoch: Epoch(1),
        place: Place { offset: ReportedOffset::Policy(OffsetReset::Earliest), end: 0 },
        rows: 1_000,
    };
    let heartbeat = Heartbeat { consumer: ConsumerId(2), polled: false, places: vec![late] };
    world.coordinator.heartbeat(&world.state, &heartbeat, 0).unwrap();
    assert_eq!(progress(&world).rows, 75);
}

#[test]
fn a_commit_counts_as_read_until_the_next_report() {
    let mut world = joined(1, &[1]);
    let (key, vgroup) = (world.key("g", "t"), VgroupId(2));
    let epoch = world.group("t").owners[&vgroup].epoch;
    let commit = |epoch, offset| OwnerCommit {
        consumer: ConsumerId(1),
        topic: key.topic,
        vgroup,
        epoch,
        offset: Version(offset),
    };
    let place = |w: &World| w.coordinator.progress(w.group("t"), &key, vgroup).place;
    world.coordinator.committed(&world.state, &commit(epoch, 10));
    assert_eq!(place(&world), None, "NULL before the first heartbeat");
    report(&mut world, 1, vgroup, 105, 106, 70);
    for (epoch, offset, shown, end) in
        [(epoch, 100, 105, 106), (epoch, 106, 106, 106), (epoch, 110, 110, 110), (Epoch(0), 200, 110, 110)]
    {
        world.coordinator.committed(&world.state, &commit(epoch, offset));
        assert_eq!(place(&world), Some(Place { offset: ReportedOffset::Log(shown), end }), "{offset}");
    }
    report(&mut world, 1, vgroup, 7, 110, 70);
    let sought = Place { offset: ReportedOffset::Log(7), end: 110 };
    assert_eq!(place(&world), Some(sought), "it sought back, and says so");
}

#[test]
fn who_is_removed_is_told_why_until_it_subscribes_again() {
    let mut world = joined(2, &[1]);
    let told = |w: &World| w.coordinator.why_removed(ConsumerId(1), None).map(|error| error.to_string());
    assert_eq!(told(&world), None);
    for _ in 0..6 {
        world.tick();
    }
    assert!(
        told(&world)
            .is_some_and(|text| text.contains("group=g: no heartbeat came for session.timeout.ms=12000"))
    );
    world.subscribe(1, &["t"]).unwrap();
    world.drive();
    assert_eq!(told(&world), None);
    world.drop_group("g", "t", true).unwrap();
    assert!(told(&world).is_some_and(|text| text.contains("DROP CONSUMER GROUP FORCE topic=t group=g")));
    world.subscribe(1, &["t"]).unwrap();
    world.drive();
    world.drop_topic("t", true).unwrap();
    assert!(told(&world).is_some_and(|text| text.contains("DROP TOPIC FORCE topic=t group=g")));
}

#[test]
fn expires_after_the_session_timeout_in_ticks_and_goes_one_tick_later() {
    let mut world = joined(4, &[1, 2]);
    world.heartbeat(1, true).unwrap();
    for tick in 1..=6 {
        assert_eq!(counts(&world, &[2]), [2], "tick {tick}");
        world.tick_with(&[2]);
    }
    assert_eq!(counts(&world, &[2]), [4], "12 s / 2 s: the sixth tick moves its vgroups");
    let gone = world.state.consumer_or_expired(ConsumerId(1)).unwrap();
    assert_eq!((gone.state(), gone.shown.len()), (ConsumerState::Ready, 1), "still listed");
    world.tick_with(&[2]);
    assert!(world.state.consumer_or_expired(ConsumerId(1)).is_none());
}

#[test]
fn expires_without_polls_though_heartbeats_go_on() {
    let mut world = World::new(4);
    let parameters = ConsumerParameters { max_poll_interval_ms: 20_000, ..ConsumerParameters::default() };
    let mut slow = World::spec(1, "g");
    slow.parameters = parameters;
    world.subscribe_as(slow, &["t"]).unwrap();
    world.subscribe(2, &["t"]).unwrap();
    world.drive();
    let kept: Vec<_> = world.group("t").owned_by(ConsumerId(2)).collect();
    for _ in 0..9 {
        world.heartbeat(1, false).unwrap();
        world.tick_with(&[2]);
    }
    assert_eq!(counts(&world, &[1, 2]), [2, 2]);
    world.heartbeat(1, false).unwrap();
    world.tick_with(&[2]);
    assert_eq!(counts(&world, &[2]), [4]);
    assert_eq!(code(world.heartbeat(1, true)), Some(Code::ConsumerNotExist), "told at its next poll");
    // C012: what the healthy one had is not disturbed.
    let now: Vec<_> = world.group("t").owned_by(ConsumerId(2)).collect();
    assert!(kept.iter().all(|k| now.contains(k)));
}

#[test]
fn the_interval_counts_not_the_number_of_ticks() {
    let mut world = joined(1, &[1]);
    world.run(Command::Set { by: "root".into(), name: "mqRebalanceInterval".into(), value: 6 }).unwrap();
    world.tick();
    assert!(world.state.consumer(ConsumerId(1)).is_ok());
    world.tick();
    assert!(world.state.consumer(ConsumerId(1)).is_err(), "2 x 6 s");
}

/// C002: a steady consumer, and others that come and are killed; after two session timeouts nothing happens any more.
#[test]
fn c002_nothing_is_rebalanced_while_membership_is_unchanged() {
    let mut world = joined(4, &[1]);
    for id in 100..125 {
        world.subscribe(id, &["t"]).unwrap();
        world.drive();
        world.heartbeat(id, true).unwrap();
        world.tick_with(&[1]);
    }
    for _ in 0..12 {
        world.tick_with(&[1]);
    }
    assert_eq!(counts(&world, &[1]), [4]);
    let (epoch, time) =
        (world.group("t").epoch, world.state.consumer(ConsumerId(1)).unwrap().rebalance_time_ns);
    for _ in 0..30 {
        world.tick_with(&[1]);
    }
    assert_eq!(world.group("t").epoch, epoch);
    assert_eq!(world.state.consumer(ConsumerId(1)).unwrap().rebalance_time_ns, time);
    assert_eq!(world.state.consumers().count(), 1);
}

/// C010: the server dies at any point of a join; both members end with vgroups, neither stays rebalancing.
#[test]
fn c010_a_join_interrupted_anywhere_ends_well() {
    for stop_after in 0..6 {
        let mut world = joined(6, &[1]);
        world.subscribe(2, &["t"]).unwrap();
        if stop_after > 0 {
            world.plan();
            world.owner_budget = Some(stop_after - 1);
            let _ = world.switch(&world.key("g", "t"));
        }
        world.restart();
        world.drive();
        for id in [1, 2] {
            world.subscribe(id, &["t"]).unwrap();
        }
        world.tick_with(&[1, 2]);
        assert_eq!(counts(&world, &[1, 2]), [3, 3]);
        assert!(world.state.consumers().all(|c| c.state() == ConsumerState::Ready));
    }
}

/// C039: dead members vanish by themselves; the first drop removes the group, the second is an error.
#[test]
fn c039_a_group_is_dropped_once() {
    let mut world = joined(4, &[1, 2, 3]);
    assert_eq!(code(world.drop_group("g", "t", false)), Some(Code::GroupInUse));
    for _ in 0..8 {
        world.tick();
    }
    assert_eq!(world.state.consumers().count(), 0);
    world.drop_group("g", "t", false).unwrap();
    assert_eq!(code(world.drop_group("g", "t", false)), Some(Code::GroupNotExist));
    assert_eq!(code(world.drop_group("g", "nope", false)), Some(Code::GroupNotExist));
}

#[test]
fn tokens_of_a_group_made_again_are_new() {
    let mut world = joined(1, &[1]);
    let first = world.group("t").owned_by(ConsumerId(1)).next().unwrap();
    let known = world.state.consumer(ConsumerId(1)).unwrap().epoch;
    world.drop_group("g", "t", true).unwrap();
    world.fence.clear();
    world.subscribe(1, &["t"]).unwrap();
    world.drive();
    let again = world.group("t").owned_by(ConsumerId(1)).next().unwrap();
    assert!(again.1 > first.1, "a commit to the dropped group that is still under way is refused");
    assert!(
        world.state.consumer(ConsumerId(1)).unwrap().epoch > known,
        "and the client sees a new assignment"
    );
}

#[test]
fn drop_group_by_force_deletes_its_members() {
    let mut world = joined(2, &[1]);
    world.drop_group("g", "t", true).unwrap();
    assert_eq!(code(world.heartbeat(1, true)), Some(Code::ConsumerNotExist));
    assert_eq!(world.state.groups().count(), 0);
}

#[test]
fn drop_topic_while_members_leave_says_in_use_then_rebalancing() {
    let mut world = joined(2, &[1]);
    assert_eq!(code(world.drop_topic("t", false)), Some(Code::TopicInUse));
    world.subscribe(1, &[]).unwrap();
    assert_eq!(code(world.drop_topic("t", false)), Some(Code::TopicInUse), "being removed");
    world.drive();
    world.drop_topic("t", false).unwrap();
    let id = world.topic("t", "d").unwrap();
    assert!(world.state.groups().all(|(k, _)| k.topic != id), "no memory of earlier groups");
    // Deleted at once (FORCE of another topic), the group lists it until the next rebalance.
    world.topic("other", "d").unwrap();
    world.subscribe(1, &["other", "t"]).unwrap();
    world.drive();
    world.drop_topic("other", true).unwrap();
    assert_eq!(code(world.drop_topic("t", false)), Some(Code::TopicRebalancing));
    world.drive();
    world.drop_topic("t", false).unwrap();
}

/// A user `u` without rights.
fn make_user(world: &mut World) {
    let (name, hash) = ("u".into(), "h".into());
    let user = Command::CreateUser { by: "root".into(), name, hash, sysinfo: true, createdb: false };
    world.run(user).unwrap();
}

#[test]
fn a_revoked_consumer_stays_a_member_and_is_told() {
    let mut world = World::new(1);
    make_user(&mut world);
    let mut spec = World::spec(1, "g");
    spec.user = "u".into();
    assert_eq!(code(world.subscribe_as(spec.clone(), &["t"])), Some(Code::NoPrivilege));
    let grant = Grant::Subscribe("t".into());
    world.run(Command::Grant { by: "root".into(), user: "u".into(), grant: grant.clone() }).unwrap();
    world.subscribe_as(spec, &["t"]).unwrap();
    world.drive();
    let beat = Heartbeat { consumer: ConsumerId(1), polled: true, places: Vec::new() };
    assert!(world.coordinator.heartbeat(&world.state, &beat, 0).unwrap().denied.is_empty());
    world.run(Command::Revoke { by: "root".into(), user: "u".into(), grant }).unwrap();
    let denied = world.coordinator.heartbeat(&world.state, &beat, 0).unwrap().denied;
    assert_eq!(denied, [world.key("g", "t").topic]);
    world.tick();
    assert_eq!(counts(&world, &[1]), [1]);
}

#[test]
fn members_that_may_read_have_the_vgroups_of_those_that_may_not() {
    let mut world = joined(4, &[1]);
    make_user(&mut world);
    let grant = |give: bool| {
        let (by, user, grant) = ("root".to_owned(), "u".to_owned(), Grant::Subscribe("t".into()));
        if give { Command::Grant { by, user, grant } } else { Command::Revoke { by, user, grant } }
    };
    world.run(grant(true)).unwrap();
    for id in [2, 3] {
        let mut spec = World::spec(id, "g");
        spec.user = "u".into();
        world.subscribe_as(spec, &["t"]).unwrap();
    }
    world.drive();
    assert_eq!(counts(&world, &[1, 2, 3]), [2, 1, 1]);
    let events = world.run(grant(false)).unwrap();
    assert!(matches!(events[..], [Event::Users]));
    world.drive();
    assert_eq!(counts(&world, &[1, 2, 3]), [4, 0, 0]);
    let key = world.key("g", "t");
    assert_eq!(world.state.group(&key).unwrap().members.len(), 3, "they stay members");
    // Nobody else: what they have waits for the right to come back, with their positions.
    world.subscribe(1, &[]).unwrap();
    world.drive();
    assert_eq!(counts(&world, &[2, 3]), [2, 2]);
    world.run(grant(true)).unwrap();
    world.drive();
    assert_eq!(counts(&world, &[2, 3]), [2, 2], "nothing moves");
    world.run(grant(false)).unwrap();
    world.subscribe(1, &["t"]).unwrap();
    world.drive();
    assert_eq!(counts(&world, &[1, 2, 3]), [4, 0, 0]);
    world.run(grant(true)).unwrap();
    world.drive();
    assert_eq!(counts(&world, &[1, 2, 3]), [2, 1, 1], "their share again");
}

#[test]
fn a_refused_subscribe_leaves_the_earlier_one_running() {
    let mut world = joined(2, &[1]);
    let before = world.state.clone();
    assert_eq!(code(world.subscribe(1, &["t", "nope"])), Some(Code::TopicNotExist));
    assert_eq!(code(world.subscribe(1, &["t", &"x".repeat(193)])), Some(Code::InvalidParameters));
    let mut replay = World::spec(1, "g");
    replay.parameters.replay = true;
    world.subscribe_as(replay, &["t"]).unwrap();
    let mut wrong = World::spec(1, "g");
    wrong.parameters.session_timeout_ms = 5_999;
    assert_eq!(code(world.subscribe_as(wrong, &["t"])), Some(Code::SubscribeOptionInvalid));
    assert_eq!(code(world.subscribe_as(World::spec(1, "h"), &["t"])), Some(Code::SubscribeOptionInvalid));
    world.drive();
    let key = GroupKey { topic: world.key("g", "t").topic, group: "g".into() };
    assert_eq!(world.state.group(&key), before.group(&key));
}

#[test]
fn a_different_set_while_rebalancing_is_not_ready() {
    let mut world = World::new(2);
    world.topic("u", "d").unwrap();
    world.subscribe(1, &["t"]).unwrap();
    assert_eq!(code(world.subscribe(1, &["u"])), Some(Code::ConsumerNotReady));
    world.subscribe(1, &["t"]).unwrap();
    world.drive();
    world.subscribe(1, &["u"]).unwrap();
    world.drive();
    assert_eq!((world.count(1, "t"), world.count(1, "u")), (0, 2));
}

#[test]
fn replay_only_of_query_topics_and_super_tables_in_one_vgroup() {
    let mut world = World::new(2);
    world.database("one", 1);
    let mut topic = |name: &str, database: &str, kind| {
        let spec = TopicSpec {
            name: name.into(),
            if_not_exists: false,
            database: database.into(),
            kind,
            meta: TopicMeta::Without,
            sql: String::new(),
            schema_json: None,
            definition: String::new(),
        };
        world.run(Command::CreateTopic { by: "root".into(), spec }).unwrap();
        world.finish_intents();
    };
    topic("db", "d", TopicKind::Database);
    topic("wide", "d", TopicKind::Query { of_stable: true });
    topic("narrow", "one", TopicKind::Query { of_stable: true });
    let mut spec = World::spec(1, "g");
    spec.parameters.replay = true;
    assert_eq!(code(world.subscribe_as(spec.clone(), &["db"])), Some(Code::ReplayKind));
    assert_eq!(code(world.subscribe_as(spec.clone(), &["wide"])), Some(Code::ReplayVgroups));
    world.subscribe_as(spec, &["narrow"]).unwrap();
}
