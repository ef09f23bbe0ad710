// A session store: node sessions.mjs URL ...
//
// It reads commands and answers each with a line; ../README.md has them. A session is a key of its own
// that expires, so no node has to be asked whether one is over, and none has to clean up.

import { randomBytes } from "node:crypto";
import { createInterface } from "node:readline";
import { Client, ConflictError, UnknownOutcomeError } from "kvorum";

const PREFIX = "session/";
const SECONDS = Number(process.env.SESSION_SECONDS ?? 1800);
const TRIES = 5;

// A write whose outcome is unknown is repeated. That does no harm here: only this write has this key,
// or it only says again what it said before.
async function repeated(write) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await write();
    } catch (error) {
      if (!(error instanceof UnknownOutcomeError) || attempt === TRIES) throw error;
    }
  }
}

/** The sessions of all users. */
class Sessions {
  constructor(client) {
    this.client = client;
  }

  /** Begins a session. Its ID is a secret that nobody can guess. */
  async login(user) {
    const session = randomBytes(16).toString("base64url");
    const value = JSON.stringify({ user });
    await repeated(() => this.client.put(PREFIX + session, value, { ttl: SECONDS }));
    return session;
  }

  /** Whose session it is; undefined if it is over. */
  async user(session) {
    const entity = await this.client.get(PREFIX + session);
    return entity && JSON.parse(entity.value).user;
  }

  /**
   * Makes a session last for its whole time again. False if it is over: a touch cannot bring back what
   * a logout has ended meanwhile.
   */
  async touch(session) {
    try {
      await repeated(() => this.client.touch(PREFIX + session, { ttl: SECONDS }));
      return true;
    } catch (error) {
      if (error instanceof ConflictError) return false;
      throw error;
    }
  }

  /** Ends a session. */
  async logout(session) {
    await repeated(() => this.client.delete(PREFIX + session));
  }

  /** The sessions that are not over: the user and the ID of each. */
  async *live() {
    for await (const { key, value } of this.client.scan({ prefix: PREFIX }))
      yield [JSON.parse(value).user, key.toString().slice(PREFIX.length)];
  }
}

async function answer(sessions, command, argument) {
  if (command === "login") return sessions.login(argument);
  if (command === "user") return (await sessions.user(argument)) ?? "none";
  if (command === "touch") return (await sessions.touch(argument)) ? "ok" : "none";
  if (command === "logout") return sessions.logout(argument).then(() => "ok");
  if (command !== "list") return "error: login USER, user ID, touch ID, logout ID or list";
  const lines = [];
  for await (const [user, session] of sessions.live()) lines.push(`${user}:${session}`);
  return lines.join(" ");
}

const token = process.env.KVORUM_TOKEN;
const client = new Client({ urls: process.argv.slice(2), ...(token ? { token } : {}) });
for await (const line of createInterface(process.stdin)) {
  const [command, argument] = line.trim().split(" ");
  console.log(await answer(new Sessions(client), command, argument));
}
client.close();
