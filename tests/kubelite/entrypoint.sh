#!/bin/bash
# What a Spark image's entry point does, for a pod that is a process: no DNS, and mounts are where the kubelet says.
set -e
case "$1" in
  driver)
    shift
    exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
      --conf spark.driver.bindAddress="$SPARK_DRIVER_BIND_ADDRESS" \
      --conf spark.driver.host="$SPARK_DRIVER_BIND_ADDRESS" \
      --conf spark.kubernetes.driver.master="https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT" \
      --conf spark.kubernetes.authenticate.driver.mounted.oauthTokenFile="$KUBERNETES_SA_DIR/token" \
      --conf spark.kubernetes.authenticate.driver.mounted.caCertFile="$KUBERNETES_SA_DIR/ca.crt" \
      "$@"
    ;;
  executor)
    options=()
    for name in $(compgen -e | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n); do options+=("${!name}"); done
    exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}$SPARK_HOME/jars/*" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" --bind-address "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *) exec "$@" ;;
esac
