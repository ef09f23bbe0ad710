//! A node as its clients see it: the HTTP contract over real sockets, byte by
//! byte, on a disk in memory.

#[cfg(test)]
mod audit;
#[cfg(test)]
mod batch_bounds;
#[cfg(test)]
mod batch_clients;
#[cfg(test)]
mod batch_streams;
#[cfg(test)]
mod batches;
#[cfg(test)]
mod browsers;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod console;
#[cfg(test)]
mod cors;
#[cfg(test)]
mod entities;
#[cfg(test)]
mod general;
#[cfg(test)]
mod health;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod overload;
#[cfg(test)]
mod profiles;
#[cfg(test)]
mod ranges;
#[cfg(test)]
mod ranges_told;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod tls_floods;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod web_pages;
