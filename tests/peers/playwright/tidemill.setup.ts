// Logs in as Airflow's setup does, but by tidemill's form, which asks for a token.
import { request } from "@playwright/test";
import fs from "node:fs";
import path from "node:path";

import { AUTH_FILE, testConfig } from "./playwright.config";

export default async function logIn() {
  fs.mkdirSync(path.dirname(AUTH_FILE), { recursive: true });
  const context = await request.newContext({ baseURL: testConfig.connection.baseUrl });
  const answer = await context.post("/auth/login", {
    form: { token: process.env.PEERS_TOKEN! },
    headers: { Origin: testConfig.connection.baseUrl },
    maxRedirects: 0,
  });

  if (answer.status() >= 400) {
    throw new Error(`login: ${answer.status()} ${await answer.text()}`);
  }
  await context.storageState({ path: AUTH_FILE });
  await context.dispose();
}
