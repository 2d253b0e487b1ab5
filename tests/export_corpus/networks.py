"""The networks of the corpus: small members of many families, at the smallest image that each takes."""

from __future__ import annotations

from dataclasses import dataclass

TORCH_EXPORTERS = ("torchscript", "dynamo")  # torch.onnx.export with dynamo=False and dynamo=True
KERAS_EXPORTERS = ("keras", "tf2onnx")  # model.export(format="onnx"), and tf2onnx called on the model's function


@dataclass(frozen=True)
class Network:
    library: str
    name: str
    size: int

    @property
    def exporters(self) -> tuple[str, ...]:
        return KERAS_EXPORTERS if self.library == "keras" else TORCH_EXPORTERS

    def __str__(self) -> str:
        return f"{self.library}:{self.name}"


def _of(library: str, size: int, names: str) -> list[Network]:
    return [Network(library, name, size) for name in names.split()]


NETWORKS = (
    *_of("torchvision", 64, """
        densenet121 convnext_tiny resnet18 resnet50 mobilenet_v2 mobilenet_v3_small efficientnet_b0 efficientnet_v2_s
        shufflenet_v2_x0_5 squeezenet1_1 regnet_y_400mf mnasnet0_5 resnext50_32x4d googlenet swin_t
        vit_b_16
    """),
    *_of("torchvision", 128, "inception_v3 swin_v2_t"),
    *_of("torchvision", 224, "maxvit_t vgg11_bn alexnet"),
    *_of("timm", 64, """
        resnetv2_50 mobilenetv4_conv_small repvgg_a0 ghostnet_100 tf_efficientnet_lite0 hardcorenas_a mobileone_s0 dla34
        res2net50_26w_4s seresnet50 skresnet18 resnest14d ese_vovnet19b_dw selecsls42b hrnet_w18_small cspresnet50
        darknet53 dpn68 xception41 nf_resnet26 eca_nfnet_l0 regnetx_002 tinynet_e fbnetc_100 semnasnet_050 lcnet_050
        rexnet_100 edgenext_xx_small convnextv2_atto repghostnet_050 gernet_s convmixer_768_32 inception_next_atto
        fastvit_t8 starnet_s1 rdnet_tiny mobilevit_xxs mobilevitv2_050 poolformer_s12 efficientformerv2_s0
        visformer_tiny vit_tiny_patch16_224 deit_tiny_patch16_224 mixer_s16_224 resmlp_12_224 gmlp_ti16_224 pvt_v2_b0
        xcit_nano_12_p16_224 levit_128s cait_xxs24_224 convit_tiny eva02_tiny_patch14_224 beit_base_patch16_224
    """),
    *_of("timm", 224, """
        swin_tiny_patch4_window7_224 coat_tiny twins_svt_small tnt_s_legacy_patch16_224 coatnet_nano_rw_224
    """),
    *_of("keras", 64, """
        MobileNet MobileNetV2 MobileNetV3Small DenseNet121 EfficientNetB0 EfficientNetV2B0 ConvNeXtTiny ResNet50
        ResNet50V2 VGG16 NASNetMobile
    """),
    *_of("keras", 96, "Xception InceptionV3 InceptionResNetV2"),
)  # fmt: skip

# Exports that are not equal to their source, by (network, exporter), and why.
DIFFERENT: dict[tuple[str, str], str] = {
    ("timm:eva02_tiny_patch14_224", "dynamo"): "the export shares two constants among its blocks that the source"
    " computes in each; without its weights the source does not tell that their numbers are the same",
}
