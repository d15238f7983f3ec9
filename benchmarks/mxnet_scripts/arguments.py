"""Arguments that make a script short, or that it requires, by its path below the folder of examples."""

from __future__ import annotations

_LANGUAGE = "--num-epochs 1 --num-hidden 16 --num-embed 16 --batch-size 8"
_SMALL = "--benchmark 1 --num-epochs 1 --num-examples 16 --batch-size 4 --disp-batches 1 --num-classes 10"

ARGUMENTS: dict[str, str] = {
    "image-classification/train_mnist.py": "--num-epochs 1 --num-examples 1000 --disp-batches 5",
    "image-classification/train_cifar10.py": "--benchmark 1 --num-epochs 1 --num-examples 64 --batch-size 16 "
    "--num-layers 8 --disp-batches 1",
    "image-classification/train_imagenet.py": f"{_SMALL} --network resnet --num-layers 18 "
    "--image-shape 3,64,64",
    "rnn/bucketing/lstm_bucketing.py": _LANGUAGE,
    "rnn/bucketing/cudnn_rnn_bucketing.py": _LANGUAGE,
    "rnn/lstm_bucketing.py": _LANGUAGE,
    "rnn/cudnn_lstm_bucketing.py": _LANGUAGE,
    "rnn/word_lm/train.py": "--emsize 16 --nhid 16 --epochs 1",
    "cnn_text_classification/text_cnn.py": "--num-epochs 1",
    "profiler/profiler_matmul.py": "--iter_num 3 --begin_profiling_iter 1 --end_profiling_iter 2",
    "profiler/profiler_executor.py": "--iter_num 3 --begin_profiling_iter 1 --end_profiling_iter 2",
    "bayesian-methods/bdk_demo.py": "-d 0 -l 2 -t 40",
    "bi-lstm-sort/lstm_sort.py": "--cpu",
    "ctc/lstm_ocr_train.py": "--cpu --num_proc 1 font.ttf",
    "ctc/lstm_ocr.py": "font.ttf",
    "dsd/mlp.py": "--pruning_switch_epoch 1,2 --weight_sparsity 0,50 --bias_sparsity 0,0",
    "gluon/mnist.py": "--epochs 1",
    "gluon/mnist/mnist.py": "--epochs 1",
    "gluon/image_classification.py": "--model resnet18_v1 --dataset dummy --epochs 1 --batch-size 2",
    "gluon/word_language_model/train.py": "--emsize 16 --nhid 16 --epochs 1",
    "model-parallel/matrix_factorization/train.py": "--num-epoch 1",
    "module/python_loss.py": "",
    "multivariate_time_series/src/lstnet.py": "--data-dir . --max-records 100 --num-epochs 1 --q 30",
    "named_entity_recognition/src/ner.py": "--data-dir . --num-epochs 1",
    "sparse/factorization_machine/train.py": "--data-train avazu-app --data-test avazu-app.t "
    "--batch-size 50 --input-size 2000",
    "sparse/linear_classification/train.py": "--num-epoch 1 --batch-size 50",
    "sparse/linear_classification.py": "--num-epoch 1 --batch-size 50",
    "sparse/matrix_factorization/train.py": "--num-epoch 1",
    "sparse/matrix_factorization.py": "--num-epoch 1",
    "sparse/wide_deep/train.py": "--num-epoch 1",
    "svrg_module/linear_regression/train.py": "-e 2",
    "svrg_module/api_usage_example/example_api_train.py": "-e 2",
    "svrg_module/api_usage_example/example_inference.py": "-e 2",
    "restricted-boltzmann-machine/binary_rbm_module.py": "--num-epoch 1 --k 2 --no-cuda",
    "restricted-boltzmann-machine/binary_rbm_gluon.py": "--num-epoch 1 --k 2 --no-cuda",
    "caffe/caffe_net.py": "--num-epochs 1 --num-examples 500",
    "capsnet/capsulenet.py": "--devices cpu --num_epoch 1 --batch_size 10",
    "gluon/dc_gan/dcgan.py": "--nepoch 1 --batch-size 4",
    "neural_collaborative_filtering/train.py": "--epoch 1",
    "ssd/train.py": "--train-path train.rec --val-path val.rec --pretrained none --batch-size 4 "
    "--num-example 16 --end-epoch 1 --label-width 10 --num-class 20 --gpus '' "
    "--data-shape 300 --network resnet50",
    "image-classification/benchmark_score.py": "",
    "quantization/imagenet_inference.py": "--benchmark True --symbol-file resnet-symbol.json",
}

OUTSIDE: dict[str, str] = {
    r"image-classification/(score|fine-tune|test_score|benchmark)\.py": "downloads models",
    r"gluon/(style_transfer|embedding_learning|audio|tree_lstm|lipnet|sn_gan|super_res)": "downloads",
    r"gluon/(mnist|dc_gan|house_prices)|gluon/mnist\.py": "downloads data and checks its hash",
    r"gluon/(data|super_resolution)\.py|gluon/actor_critic": "downloads data, or needs gym",
    r"neural-style|cnn_visualization|onnx|quantization|automatic-mixed|multi_threaded": "downloads models",
    r"rcnn|ssd/(demo|evaluate|deploy|benchmark_score|quantization)|ssd/tools|fcn-xs": "downloads models",
    r"reinforcement-learning|neural_collaborative_filtering": "needs gym, an emulator, or a download",
    r"caffe/|torch/|extensions|lib_|horovod|rtc|speech": "needs a plug-in, a compiler, Horovod, or Kaldi",
    r"captcha|ctc/(lstm_ocr_infer|ocr_predict)|warpctc|bi-lstm-sort/infer": "needs a model trained before",
    r"distributed_training|a3c": "needs several machines, or gym",
    r"vae-gan|mxnet_adversarial_vae": "downloads data",
    r"(^|/)utils/|/download": "downloads",
}
"""Scripts outside of the draw, by a regular expression, and why: they need more than generated data."""
