//! A node as its clients see it: the HTTP contract over real sockets, byte by
//! byte, on a disk in memory.

#[cfg(test)]
mod batches;
#[cfg(test)]
mod conditions;
#[cfg(test)]
mod entities;
#[cfg(test)]
mod general;
#[cfg(test)]
mod health;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod profiles;
#[cfg(test)]
mod scans;
#[cfg(test)]
mod support;
#[cfg(test)]
mod trust;
#[cfg(test)]
mod web;
