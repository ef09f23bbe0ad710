//! What nodes say of themselves and of each other.

mod health;
mod metrics;
mod node_report;
mod pages;
mod traces;
