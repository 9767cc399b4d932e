//! Tests of the group as its owners see it, and openraft's own suite for what it stands on.

mod crash;
mod disk;
mod faults;
mod group;
mod histories;
mod ledger;
mod matrix;
mod suite;
mod support;
mod upkeep;
