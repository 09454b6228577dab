// Airflow's own configuration, with this host's Chromium, one worker, and the login of a token.
import theirs from "./playwright.config";

const [chromium] = theirs.projects!;

export default {
  ...theirs,
  forbidOnly: true,
  globalSetup: "./tidemill.setup.ts",
  projects: [
    {
      ...chromium,
      use: {
        ...chromium.use,
        launchOptions: {
          args: [
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--window-size=1920,1080",
          ],
          executablePath: process.env.PEERS_CHROMIUM,
        },
      },
    },
  ],
  reporter: [["list"], ["json", { outputFile: process.env.PEERS_RESULTS }]],
  retries: 1,
  use: { ...theirs.use, screenshot: "off", trace: "off", video: "off" },
  workers: 1,
};
