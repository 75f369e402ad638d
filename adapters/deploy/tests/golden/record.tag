object b736fa0e6105c494d8cf62b2fd9fad2c86b46500
type commit
tag 01a0fbd7828070008000087800000024
tagger wilco <wilco@localhost> 1790928000 +0000

{"act":"01a0fbd7828070008000087800000024","ask":"DEPLOY","form":"deploy","item":"svc:api","env":"PROD","target":"api-prod","place":"https://git.example/api.git refs/heads/prod","ver":"v2.4.1","to":"b736fa0e6105c494d8cf62b2fd9fad2c86b46500","prev":"v2.4.0","from":"7b563de798781e4d8f95376fe3d14a69203f1c96","opens":1790928000000000,"closes":1790942400000000,"tag":true,"push_option":true}
