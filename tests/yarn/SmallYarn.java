import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * A ResourceManager and a NodeManager in one process, on loopback.
 *
 * <p>Arguments: a folder, and how many megabytes containers may have together. In the folder it leaves `conf`, which
 * clients take for HADOOP_CONF_DIR, and then `ready`, the address of the ResourceManager's REST API. It works in the
 * current folder, and ends when its standard input does.
 */
public class SmallYarn {
  private static final List<String> FOR_CLIENTS =
      List.of(
          "yarn.resourcemanager.hostname",
          "yarn.resourcemanager.address",
          "yarn.resourcemanager.scheduler.address",
          "yarn.resourcemanager.resource-tracker.address",
          "yarn.resourcemanager.admin.address",
          "yarn.resourcemanager.webapp.address",
          "yarn.log-aggregation-enable",
          "yarn.nodemanager.remote-app-log-dir",
          "yarn.scheduler.minimum-allocation-mb");

  public static void main(String[] arguments) throws Exception {
    Path folder = Path.of(arguments[0]).toAbsolutePath();
    MiniYARNCluster cluster = new MiniYARNCluster("yarn", 1, 1, 1, 1);
    cluster.init(settings(folder, arguments[1], Boolean.parseBoolean(arguments[2])));
    cluster.start();
    // Else containers would live longer than this process.
    Runtime.getRuntime().addShutdownHook(new Thread(cluster::stop));
    if (!cluster.waitForNodeManagersToConnect(60_000)) {
      throw new IllegalStateException("the NodeManager has not connected");
    }
    Configuration known = cluster.getConfig();
    Configuration told = new Configuration(false);
    for (String name : FOR_CLIENTS) {
      if (known.getRaw(name) != null) {
        told.set(name, known.get(name));
      }
    }
    Configuration core = new Configuration(false);
    core.set("fs.defaultFS", "file:///");
    Path conf = Files.createDirectories(folder.resolve("conf"));
    write(core, conf.resolve("core-site.xml"));
    write(told, conf.resolve("yarn-site.xml"));
    Path whole = folder.resolve("ready.tmp");
    Files.writeString(whole, "http://" + known.get("yarn.resourcemanager.webapp.address"));
    Files.move(whole, folder.resolve("ready"), StandardCopyOption.ATOMIC_MOVE);
    while (System.in.read() >= 0) {}
    System.exit(0);
  }

  private static YarnConfiguration settings(Path folder, String megabytes, boolean aggregates) {
    YarnConfiguration conf = new YarnConfiguration();
    String queue = "yarn.scheduler.capacity.root";
    Map.ofEntries(
            Map.entry("fs.defaultFS", "file:///"),
            Map.entry("hadoop.tmp.dir", folder.resolve("tmp").toString()),
            // The jar of the small cluster has no settings of queues.
            Map.entry(queue + ".queues", "default"),
            Map.entry(queue + ".default.capacity", "100"),
            Map.entry(queue + ".default.maximum-capacity", "100"),
            Map.entry(queue + ".default.state", "RUNNING"),
            Map.entry(queue + ".default.acl_submit_applications", "*"),
            Map.entry(queue + ".default.acl_administer_queue", "*"),
            Map.entry("yarn.scheduler.capacity.node-locality-delay", "-1"),
            // Drivers may have all of it; by default a tenth.
            Map.entry("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0"),
            Map.entry("yarn.scheduler.minimum-allocation-mb", "256"),
            // A disk that is nearly full is no matter of the tests.
            Map.entry("yarn.nodemanager.disk-health-checker.enable", "false"),
            Map.entry("yarn.minicluster.yarn.nodemanager.resource.memory-mb", megabytes),
            Map.entry("yarn.nodemanager.resource.cpu-vcores", "16"),
            Map.entry("yarn.nodemanager.delete.debug-delay-sec", aggregates ? "0" : "600"),
            Map.entry("yarn.log-aggregation-enable", String.valueOf(aggregates)),
            Map.entry("yarn.nodemanager.remote-app-log-dir", folder.resolve("aggregated").toString()),
            Map.entry("yarn.resourcemanager.nodemanagers.heartbeat-interval-ms", "100"),
            Map.entry("yarn.resourcemanager.bind-host", "127.0.0.1"),
            Map.entry("yarn.nodemanager.bind-host", "127.0.0.1"))
        .forEach(conf::set);
    return conf;
  }

  private static void write(Configuration conf, Path path) throws Exception {
    try (OutputStream out = Files.newOutputStream(path)) {
      conf.writeXml(out);
    }
  }
}
