"""Three nodes of Penstock, each broker and controller, as processes of `penstock serve`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from harness.brokers import PenstockBroker, penstock_command
from harness.clusters import ProcessCluster

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class PenstockNode(PenstockBroker):
    def launch(self) -> subprocess.Popen[bytes]:
        if not (self.log_directories[0] / "meta.properties").exists():
            subprocess.run(
                [
                    *penstock_command(),
                    *("storage", "format", *self.setting_options(), "--cluster-id", CLUSTER_ID),
                    *self.format_options,
                ],
                check=True,
                capture_output=True,
                env=self.environment(),
            )
        return super().launch()


class PenstockCluster(ProcessCluster[PenstockNode]):
    def make_node(self, folder: Path, settings: Mapping[str, str], port: int) -> PenstockNode:
        return PenstockNode(folder, settings=settings, port=port)

    def check_outputs(self) -> None:
        """Fail if a node reported an internal error."""
        for node in self.nodes.values():
            node.check_output()
