"""Which test sets everybody has: what each is drawn from, and the SHA-256 of its instances."""

from dataclasses import dataclass

from ..problems.base import Size
from .dataset import SeededSample


@dataclass(frozen=True)
class StandardSet:
    """What defines a standard set, and the SHA-256 its instances must have.

    family : of the problem, where it is not its own draw.
    """

    problem: str
    size: Size
    count: int
    seed: int
    sha256: str
    family: str | None = None

    @property
    def sample(self) -> SeededSample:
        """What its instances are drawn from."""
        return SeededSample(self.size, self.count, self.seed, self.family)


PAPER_SETS: dict[str, StandardSet] = {
    "pmsp-20x3": StandardSet(
        "pmsp", (20, 3), 1000, 20241000, "85131f46fe1873eba8ac2a7a8e879b52bb72b62cee10f096b6b4817ac1d2deb4"
    ),
    "pmsp-20x4": StandardSet(
        "pmsp", (20, 4), 1000, 20241001, "e8b06e8348b5b215a13bc98f41e260e431eb567df6615a1dfb5c9514421feeb3"
    ),
    "pmsp-20x5": StandardSet(
        "pmsp", (20, 5), 1000, 20241002, "5ab94e1c0489311c1555f02ce6e678d32654c22c4c1f4c3aad7ec99c3bb01742"
    ),
    "pmsp-50x3": StandardSet(
        "pmsp", (50, 3), 1000, 20241003, "8a46aab410de69d50ce8b7a7906a3cca1b8bdbdaa9c632c0a5ce5e4aac2e2aa4"
    ),
    "pmsp-50x4": StandardSet(
        "pmsp", (50, 4), 1000, 20241004, "c1e60257bdf1b4763723bc18b5b82b93791703421c180e3bf22c53529c6b3408"
    ),
    "pmsp-50x5": StandardSet(
        "pmsp", (50, 5), 1000, 20241005, "f627004580e9f990af43cb52a258adcda55488020c262929f414d298cef4c0dd"
    ),
    "atsp-10": StandardSet(
        "atsp", (10,), 200, 20241006, "1751e5bddf2a2b608aba78bf8a25b805386f02bda2cee818057e4fc2382fa2e2"
    ),
    "atsp-15": StandardSet(
        "atsp", (15,), 200, 20241007, "5c1ee4c214d91920873d2cc8e71c2c584524e19b54273f26bb54690f5e2f96ad"
    ),
    "atsp-20": StandardSet(
        "atsp", (20,), 1000, 20241008, "4712fa49653e45a8414e7f56401f2bb0ad7fcba23ae34944999373355f81052c"
    ),
    "atsp-25": StandardSet(
        "atsp", (25,), 200, 20241009, "525f1658e91b25b643cd4fa46fbb59dbe50e005b3e1cfa5a22d8ae24786bc713"
    ),
    "atsp-30": StandardSet(
        "atsp", (30,), 200, 20241010, "b20d6fa76d64153beaf49ecbfbc3dadcf0c8a04469a88faf0b2630693dae1eaa"
    ),
    "atsp-35": StandardSet(
        "atsp", (35,), 200, 20241011, "24b27d8741be6b2807cd75e3be53490bd6f46bc7580dffcb1f1e1cfd2b83f487"
    ),
    "atsp-40": StandardSet(
        "atsp", (40,), 200, 20241012, "933f628afd06a29cc384f7adc431db918ca25a56f27a437fc99336b7ac8a82af"
    ),
    "atsp-45": StandardSet(
        "atsp", (45,), 200, 20241013, "2cf4a5b2d34791e2ffb98329f8b4d1ed406156388681a369669094239be87bf9"
    ),
    "atsp-50": StandardSet(
        "atsp", (50,), 1000, 20241014, "5e2098d42b3379fc33133cb757b9ed4c284fa571b50a0937bc845acc32e5dd58"
    ),
    "atsp-100": StandardSet(
        "atsp", (100,), 128, 20241015, "017d1f6998227ab1d666796f8a0c2544837e0f7cb1750d4e1420114d6d18abd6"
    ),
    "navigation-20": StandardSet(
        "navigation",
        (20,),
        1000,
        20241016,
        "4f23c1c13aeb8c0bb4b23a9052fc67bc0400dbf787cb5b82cbc165d58554a63f",
    ),
    "pmsp-100x5": StandardSet(
        "pmsp", (100, 5), 128, 20241017, "579c0240ec8262f84875015218cfc787a90340ef23f424fc34167404676e4a6d"
    ),
    "pmsp-100x10": StandardSet(
        "pmsp", (100, 10), 128, 20241018, "3eaf4e5ccfe541f2fb1592f5d8a4f34ccd6c4160c36c5f0b072ec32bca1d0daf"
    ),
}
"""The paper's sizes and draws, and a few larger ones; every reference is proven."""

FAMILY_SETS: dict[str, StandardSet] = {
    "pmsp-200x10": StandardSet(
        "pmsp", (200, 10), 10, 20261000, "2a0993ba671f626e4269e337e3eead4ce8927256b4e6b6572302cfbef4fa8e59"
    ),
    "pmsp-job-correlated-100x10": StandardSet(
        "pmsp",
        (100, 10),
        10,
        20261001,
        "97f2cf289c81d89001fa2ef3cc9c3fa81dd98cfde922a4bcc3c4e5acdc17af62",
        "job-correlated",
    ),
    "pmsp-job-correlated-100x20": StandardSet(
        "pmsp",
        (100, 20),
        10,
        20261002,
        "fead4c990667d8357638ceef854d38a8b46d95d76e87bee214f7c23e26498c5f",
        "job-correlated",
    ),
    "pmsp-job-correlated-200x20": StandardSet(
        "pmsp",
        (200, 20),
        10,
        20261003,
        "b11dc66133bb0e6fceb8e638061c62746d8edd8ee265dac1efaf9f88ccdebf29",
        "job-correlated",
    ),
    "pmsp-job-correlated-200x50": StandardSet(
        "pmsp",
        (200, 50),
        10,
        20261004,
        "f7126472d9471d1c8200c640b314b8dece63c712626d5cbeaad0ac10d6db2772",
        "job-correlated",
    ),
    "pmsp-job-correlated-1000x50": StandardSet(
        "pmsp",
        (1000, 50),
        10,
        20261005,
        "4395dc810076f85bb59ca5f8e55e005d7732cbb22b9fcbb4d68eaf026f36eef6",
        "job-correlated",
    ),
    "pmsp-machine-correlated-100x10": StandardSet(
        "pmsp",
        (100, 10),
        10,
        20261006,
        "741786c626f851ca68708c69c471554d170062d6ead3a5d9bc9e408cb492f10c",
        "machine-correlated",
    ),
    "pmsp-machine-correlated-100x20": StandardSet(
        "pmsp",
        (100, 20),
        10,
        20261007,
        "ad79a17b042a226ff1c618e2e1b43b16ad2b68e790ab8e0ceefdda215c5ba01d",
        "machine-correlated",
    ),
    "pmsp-machine-correlated-200x20": StandardSet(
        "pmsp",
        (200, 20),
        10,
        20261008,
        "f4365d2144e10c52530dee6bd86af44e92f7cc27bbfc2ee4ff2339b232d5ecd1",
        "machine-correlated",
    ),
    "pmsp-machine-correlated-200x50": StandardSet(
        "pmsp",
        (200, 50),
        10,
        20261009,
        "028fed2dcfbbd78b6b20429847c27ff859a51bfd078c7ddc65d83929b0fc9cbe",
        "machine-correlated",
    ),
    "pmsp-machine-correlated-1000x50": StandardSet(
        "pmsp",
        (1000, 50),
        10,
        20261010,
        "effe04cc58e6cfc3073ce7baf232b4c9398974dc111a47b20558aa6b5e867ae7",
        "machine-correlated",
    ),
    "pmsp-uniform-100-100x10": StandardSet(
        "pmsp",
        (100, 10),
        10,
        20261011,
        "1763b9ca13f9ddd99ea8f10d056e62e8f75fe18192e6798cf83f2960783cffc5",
        "uniform-100",
    ),
    "pmsp-uniform-100-100x20": StandardSet(
        "pmsp",
        (100, 20),
        10,
        20261012,
        "cd49fb40a77da05f4a67a5a1a675ca741fc413d10484c669e9beda3da65952f0",
        "uniform-100",
    ),
    "pmsp-uniform-100-200x20": StandardSet(
        "pmsp",
        (200, 20),
        10,
        20261013,
        "04b4cf99c27c0951b3497b1fe9d017a4f722a940362c247aea27710469cc093d",
        "uniform-100",
    ),
    "pmsp-uniform-100-200x50": StandardSet(
        "pmsp",
        (200, 50),
        10,
        20261014,
        "e4ec6c03409259c65605afd113838fadef4cc024d1770df6a1acc745a5500186",
        "uniform-100",
    ),
    "pmsp-uniform-100-1000x50": StandardSet(
        "pmsp",
        (1000, 50),
        10,
        20261015,
        "c5fde793e92a74d7e6e5975464c5f367bc00060a33203eddaa263d95760a3bae",
        "uniform-100",
    ),
    "atsp-200": StandardSet(
        "atsp", (200,), 10, 20261016, "81f9b40cd85255a15dd2c947a471296151b65c7c83319a2bc1eeed20a50f6f5d"
    ),
    "atsp-500": StandardSet(
        "atsp", (500,), 10, 20261017, "78da06c0d9fc03480597c6eea987c79a52df0e4419e47846931e3e479516835f"
    ),
    "atsp-1000": StandardSet(
        "atsp", (1000,), 10, 20261018, "f3af46e501d6d563521c3da08636e510d25a6c10fdd2eebf88d6a8ac055b5572"
    ),
    "atsp-uniform-20": StandardSet(
        "atsp", (20,), 20, 20261019, "61c75a61866f6dcc695a3d775a7afe8435bcbd42f1c2d9b47baeb9a23d758e6e", "uniform"
    ),
    "atsp-uniform-50": StandardSet(
        "atsp", (50,), 20, 20261020, "3438ee314cab0a23bb0eebba07cf9526d23e7059316d40a066613a2e09c70ec1", "uniform"
    ),
    "atsp-uniform-100": StandardSet(
        "atsp", (100,), 10, 20261021, "ba6e04ec9583ada45d00f57f8e05f67a58618aaaf0df5ae1680d602133c5737a", "uniform"
    ),
    "atsp-noisy-plane-50": StandardSet(
        "atsp", (50,), 20, 20261022, "1d7c12ef8719a8c0e04c35db5b68596332927e4e5e8183aa492a51ac6cb41416", "noisy-plane"
    ),
    "atsp-noisy-plane-100": StandardSet(
        "atsp", (100,), 10, 20261023, "753c4b3860fd367ed0b3c4bf857b9e04dd097f39c61a4662ada3815cd5ae9dbc", "noisy-plane"
    ),
    "atsp-noisy-plane-200": StandardSet(
        "atsp", (200,), 10, 20261024, "6bcc9988a89df09f5837e23f0690719ef20f3c19b946aa1f6f87a8a96d0a94a3", "noisy-plane"
    ),
    "atsp-one-way-plane-50": StandardSet(
        "atsp", (50,), 20, 20261025, "b2cb03f67a7ef49f9eb6ab40389b4fd10de5f9045dd1bded30850cc008518a30", "one-way-plane"
    ),
    "atsp-one-way-plane-100": StandardSet(
        "atsp",
        (100,),
        10,
        20261026,
        "54f4e9f15dd0868d7f30a6202ba400aadbe7c4caf7683c8921e4873b81789b73",
        "one-way-plane",
    ),
    "atsp-one-way-plane-200": StandardSet(
        "atsp",
        (200,),
        10,
        20261027,
        "4edefb4299354d66f43bd7ccc31b6d757c40baec3ec7e668535d6c7e55e2c018",
        "one-way-plane",
    ),
    "atsp-roads-50": StandardSet(
        "atsp", (50,), 20, 20261028, "7e0499011f503d3fb18ad11371098922c7c33aa10759891efd3af660c5570f83", "roads"
    ),
    "atsp-roads-100": StandardSet(
        "atsp", (100,), 10, 20261029, "c582f6ca00442d644709159c3e3517c5d0338a39f1f7bd2aa741c9e1c9915dd9", "roads"
    ),
    "atsp-roads-170": StandardSet(
        "atsp", (170,), 10, 20261030, "e4bddae7f9fa8912ecbecc95876cc83b73bdb83692c81fba1311ef32444b1aad", "roads"
    ),
    "atsp-roads-200": StandardSet(
        "atsp", (200,), 10, 20261031, "8c7d3191bcbce5e0b9fbc3fbf138ac98336efc75209988aef4e171dccc3e9063", "roads"
    ),
    "atsp-crane-50": StandardSet(
        "atsp", (50,), 20, 20261032, "84a4f5c15006a021df10222beb4a384612cf4c035cdf1530373abc02da947fab", "crane"
    ),
    "atsp-crane-100": StandardSet(
        "atsp", (100,), 10, 20261033, "a478f1ebc401358f48c7d86c38a3bec20a59143de5693362828e105c735031d8", "crane"
    ),
    "atsp-crane-200": StandardSet(
        "atsp", (200,), 10, 20261034, "e25f86db8f22835f39d91b0a40605eb4fc0918484f75f9a9a768d0af905a136c", "crane"
    ),
    "atsp-crane-300": StandardSet(
        "atsp", (300,), 10, 20261035, "b268883787f002cb25f80bf707b1cb01fa7ebff4a3cfd5b986bec35c8cf22d07", "crane"
    ),
    "atsp-crane-450": StandardSet(
        "atsp", (450,), 10, 20261036, "0f2a3ca75b063087406a5f3e0e02de78de8d11f1d036d5fffef6edff9decd546", "crane"
    ),
}
"""Larger and other instances than the paper's (`icdc.problems.families`); references are proven or the best known."""

STANDARD_SETS = PAPER_SETS | FAMILY_SETS
